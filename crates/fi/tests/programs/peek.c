/* Looks at messages that have arrived, with and without claiming them, and drops them. One endpoint sends to itself. Each
 * operation ends with one completion, also that which drops a message. Prints "ok". */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS = 29, TAG = 0x900d, BYTES = 100 };

static struct fid_ep *endpoint;
static struct fid_cq *queue;
static struct fid_av *table;
static fi_addr_t own;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

static void open_all(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    char name[ADDRESS];
    size_t len = ADDRESS;
    hints->caps = FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("barewire");
    check(!fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info), "the provider");
    check(!fi_fabric(info->fabric_attr, &fabric, NULL), "fabric");
    check(!fi_domain(fabric, info, &domain, NULL), "domain");
    check(!fi_cq_open(domain, &cq, &queue, NULL), "queue");
    check(!fi_av_open(domain, &av, &table, NULL), "table");
    check(!fi_endpoint(domain, info, &endpoint, NULL), "endpoint");
    check(!fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV), "bind the queue");
    check(!fi_ep_bind(endpoint, &table->fid, 0), "bind the table");
    check(!fi_enable(endpoint), "enable");
    check(!fi_getname(&endpoint->fid, name, &len) && len == ADDRESS, "name");
    check(fi_av_insert(table, name, 1, &own, 0, NULL) == 1, "insert");
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

/* Waits for a completion, and returns 0 or its error. */
static int complete(struct fi_cq_tagged_entry *entry)
{
    ssize_t taken;
    while ((taken = fi_cq_read(queue, entry, 1)) == -FI_EAGAIN)
        ;
    if (taken == 1)
        return 0;
    struct fi_cq_err_entry error = {0};
    check(taken == -FI_EAVAIL && fi_cq_readerr(queue, &error, 0) == 1, "a completion");
    return error.err;
}

static int operate(uint64_t tag, uint64_t flags, struct fi_cq_tagged_entry *entry)
{
    static char bytes[BYTES];
    static struct fi_context context;
    struct iovec room = {bytes, sizeof bytes};
    int has_room = !(flags & (FI_PEEK | FI_DISCARD));
    struct fi_msg_tagged message = {
        .msg_iov = has_room ? &room : NULL, .iov_count = has_room, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = &context};
    memset(entry, 0, sizeof *entry);
    check(!fi_trecvmsg(endpoint, &message, flags), "begin");
    int error = complete(entry);
    check(error || (entry->op_context == &context && entry->tag == tag), "its own completion");
    return error;
}

int main(void)
{
    static char bytes[BYTES];
    struct fi_cq_tagged_entry entry;
    open_all();
    check(operate(TAG, FI_PEEK, &entry) == FI_ENOMSG, "nothing has come");
    for (int k = 0; k < 4; k++) {
        check(!fi_tsend(endpoint, bytes, BYTES, NULL, own, TAG + k, NULL), "send");
        check(!complete(&entry), "sent");
    }
    check(!operate(TAG, FI_PEEK, &entry) && entry.len == BYTES, "peek");
    check(!operate(TAG, 0, &entry) && entry.len == BYTES, "receive after a peek");
    check(!operate(TAG + 1, FI_PEEK | FI_CLAIM, &entry), "claim");
    check(operate(TAG + 1, FI_PEEK, &entry) == FI_ENOMSG, "a claimed message is found by nobody else");
    check(!operate(TAG + 1, FI_CLAIM, &entry) && entry.len == BYTES, "receive what was claimed");
    check(!operate(TAG + 2, FI_PEEK | FI_DISCARD, &entry), "find and drop");
    check(operate(TAG + 2, FI_PEEK, &entry) == FI_ENOMSG, "it is gone");
    check(!operate(TAG + 3, FI_PEEK | FI_CLAIM, &entry), "claim what is to be dropped");
    check(!operate(TAG + 3, FI_CLAIM | FI_DISCARD, &entry), "drop what was claimed");
    check(operate(TAG + 3, FI_PEEK, &entry) == FI_ENOMSG, "it is gone, too");
    puts("ok");
    return 0;
}
