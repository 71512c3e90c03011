/* An endpoint of libfabric whose peers may do anything, until one sends "stop": it receives into buffers for several
 * messages and for one, with tags and without, and has memory that peers may only read. First it prints its name, and where
 * that memory is. What peers must not reach stays as it is. In the end it prints "ok". */
#include "endpoint.h"
#include <rdma/fi_rma.h>
#include <inttypes.h>

enum { BUFFERS = 4, ROOM = 20000, GUARD = 64, SECRET = 4096 };

static unsigned char buffers[BUFFERS][GUARD + ROOM + GUARD];
static unsigned char tagged[GUARD + 100 + GUARD], secret[SECRET];

static void open_all(char *own)
{
    struct fi_info *hints = hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV);
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    open_endpoint(hints);
    enable(own);
}

static void post_many(int which)
{
    struct iovec part = {buffers[which] + GUARD, ROOM};
    struct fi_msg msg = {&part, NULL, 1, FI_ADDR_UNSPEC, buffers[which], 0};
    check(!fi_recvmsg(endpoint, &msg, FI_MULTI_RECV | FI_COMPLETION), "post a buffer");
}

static void post_tagged(void)
{
    check(!fi_trecv(endpoint, tagged + GUARD, 100, NULL, FI_ADDR_UNSPEC, 0, ~0UL, tagged), "post a receive with a tag");
}

static void guards(const unsigned char *bytes, size_t room)
{
    for (size_t at = 0; at < GUARD; at++)
        check(bytes[at] == 42 && bytes[GUARD + room + at] == 42, "nothing is written beside a buffer");
}

/* Reads one completion. Returns whether the program is to stop. */
static int one(void)
{
    struct fi_cq_tagged_entry entry = {0};
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(queue, &entry, 1);
    if (got == -FI_EAGAIN)
        return 0;
    if (got == -FI_EAVAIL) {
        check(fi_cq_readerr(queue, &error, 0) == 1, "an error is there");
        check(error.err == FI_ECONNRESET || error.err == FI_ETRUNC, "an error of the peer");
        entry.op_context = error.op_context;
        entry.flags = error.flags;
    } else if (entry.len == 4 && entry.flags & FI_MSG && !memcmp(entry.buf, "stop", 4)) {
        return 1;
    } else if (entry.len > 0 && entry.flags & FI_MSG) {
        unsigned char *start = entry.op_context;
        check((unsigned char *)entry.buf >= start + GUARD && (unsigned char *)entry.buf + entry.len <= start + GUARD + ROOM,
              "a message lies in its buffer");
    }
    if (entry.op_context == tagged)
        post_tagged();
    else if (entry.flags & FI_MULTI_RECV)
        post_many((int)((unsigned char *)entry.op_context - buffers[0]) / (int)sizeof buffers[0]);
    return 0;
}

int main(void)
{
    char own[ADDRESS];
    struct fid_mr *region;
    memset(buffers, 42, sizeof buffers);
    memset(tagged, 42, sizeof tagged);
    memset(secret, 42, sizeof secret);
    open_all(own);
    check(!fi_mr_reg(domain, secret, sizeof secret, FI_REMOTE_READ, 0, 0, 0, &region, NULL), "region");
    for (int which = 0; which < BUFFERS; which++)
        post_many(which);
    post_tagged();
    printf("%s %" PRIu64 " %" PRIu64 "\n", own, fi_mr_key(region), (uint64_t)(uintptr_t)secret);
    fflush(stdout);
    while (!one())
        ;
    for (int which = 0; which < BUFFERS; which++)
        guards(buffers[which], ROOM);
    guards(tagged, 100);
    for (size_t at = 0; at < sizeof secret; at++)
        check(secret[at] == 42, "memory that is only to be read stays as it is");
    check(!fi_close(&region->fid) && !fi_close(&endpoint->fid), "close");
    puts("ok");
    return 0;
}
