/* One process writes and reads the memory of another through libfabric: each length, each kind of call, what must be
 * refused, a region that is taken back, and the death of the process that has the memory. Prints "ok". */
#include "endpoint.h"
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 6 << 20, DATA = 77 };

/* What the process that has the memory tells the other one. */
struct told {
    char name[ADDRESS];
    uint64_t start, key, read_only_key;
};

static struct fid_cntr *writes, *reads;

static void open_all(char *own)
{
    struct fi_info *hints = hints_for(FI_RMA | FI_ATOMIC | FI_TAGGED), *info;
    struct fi_cntr_attr counted = {.events = FI_CNTR_EVENTS_COMP};
    check(fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info) == -FI_ENODATA, "regions must be known");
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    open_endpoint(hints);
    check(!fi_cntr_open(domain, &counted, &writes, NULL) && !fi_cntr_open(domain, &counted, &reads, NULL), "counters");
    check(!fi_ep_bind(endpoint, &writes->fid, FI_WRITE | FI_REMOTE_WRITE), "bind a counter");
    check(!fi_ep_bind(endpoint, &reads->fid, FI_READ), "bind the other one");
    enable(own);
}

static int ended(void *context, uint64_t flag)
{
    struct fi_cq_tagged_entry entry = {0};
    int error = complete(&entry);
    check(entry.op_context == context, "the context of the operation");
    check(error || (entry.flags & FI_RMA && entry.flags & flag), "the flags of the operation");
    return error;
}

/* The process that has the memory: tells of each write with data, until it is killed. A write of DATA + 1 has it take its
 * region back. */
static void serve(int to_other)
{
    struct told told;
    struct fid_mr *region, *read_only;
    struct fi_cq_tagged_entry entry;
    char *memory = calloc(1, LONGEST);
    open_all(told.name);
    check(!fi_mr_reg(domain, memory, LONGEST, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &region, NULL), "region");
    check(!fi_mr_reg(domain, memory, LONGEST, FI_REMOTE_READ, 0, 0, 0, &read_only, NULL), "second region");
    told.start = (uint64_t)memory;
    told.key = fi_mr_key(region);
    told.read_only_key = fi_mr_key(read_only);
    check(told.key != told.read_only_key, "keys differ");
    check(write(to_other, &told, sizeof told) == sizeof told, "tell");
    for (;;) {
        check(complete(&entry) == 0, "no error at the target");
        check(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), "flags of a write with data");
        check(entry.data == DATA || entry.data == DATA + 1, "data of a write");
        if (entry.data == DATA + 1)
            check(!fi_close(&region->fid), "take the region back");
        check(write(to_other, &entry.data, sizeof entry.data) == sizeof entry.data, "tell of it");
    }
}

/* Counters count what has ended, and what has failed; they can be waited for, set and added to. */
static void counters(fi_addr_t to, struct told *told)
{
    char bytes[16] = {0};
    uint64_t before = fi_cntr_read(writes);
    check(before == 12 && fi_cntr_read(reads) == 12, "one write and one read of each length");
    check(fi_cntr_readerr(writes) == 0 && fi_cntr_readerr(reads) == 0, "none has failed");
    check(!fi_inject_write(endpoint, bytes, sizeof bytes, to, told->start, told->key), "inject");
    check(!fi_cntr_wait(writes, before + 1, 60000), "wait for it");
    check(fi_cntr_wait(writes, before + 2, 1) == -FI_ETIMEDOUT, "nothing more comes");
    check(!fi_inject_write(endpoint, bytes, 1, to, told->start, told->key ^ 1), "inject with a wrong key");
    check(fi_cntr_wait(writes, before + 2, 60000) == -FI_EAVAIL && fi_cntr_readerr(writes) == 1, "a failure is counted");
    check(ended(NULL, 0) == FI_ENOKEY, "and told");
    check(!fi_cntr_set(reads, 5) && !fi_cntr_add(reads, 2) && fi_cntr_read(reads) == 7, "set and add");
    check(fi_close(&reads->fid) == -FI_EBUSY, "a counter in use can not be closed");
}

static void lengths(fi_addr_t to, struct told *told)
{
    static const size_t all[] = {0, 1, 8, 24, 25, 100, 4096, 8192, 8193, 65536, 300000, LONGEST};
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
    for (unsigned k = 0; k < sizeof all / sizeof *all; k++) {
        size_t len = all[k];
        uint64_t at = told->start + (LONGEST - len) / 2;
        for (size_t b = 0; b < len; b++)
            out[b] = (unsigned char)(b * 7 + k);
        memset(in, 0, LONGEST);
        check(!fi_write(endpoint, out, len, NULL, to, at, told->key, out), "write");
        check(ended(out, FI_WRITE) == 0, "a write ends well");
        check(!fi_read(endpoint, in, len, NULL, to, at, told->read_only_key, in), "read");
        check(ended(in, FI_READ) == 0, "a read ends well");
        check(!memcmp(in, out, len), "what was written is read");
    }
    free(out);
    free(in);
}

static void kinds_of_calls(fi_addr_t to, struct told *told, int from_other)
{
    char out[] = "written in two places", in[sizeof out] = {0};
    struct iovec parts[] = {{out, 7}, {out + 7, sizeof out - 7}};
    struct fi_rma_iov target = {told->start, sizeof out, told->key};
    struct fi_msg_rma msg = {parts, NULL, 2, to, &target, 1, out, DATA};
    uint64_t data;
    check(!fi_writemsg(endpoint, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA), "writemsg");
    check(ended(out, FI_WRITE) == 0, "writemsg ends well");
    check(read(from_other, &data, sizeof data) == sizeof data && data == DATA, "the target is told");
    check(!fi_inject_write(endpoint, "W", 1, to, told->start, told->key), "inject");
    check(!fi_readv(endpoint, (struct iovec[]){{in, 3}, {in + 3, sizeof in - 3}}, NULL, 2, to, told->start, told->key, in),
          "readv");
    check(ended(in, FI_READ) == 0, "readv ends well");
    check(!strcmp(in, "Written in two places"), "all of it is there");
    check(!fi_writedata(endpoint, out, 0, NULL, DATA, to, told->start, told->key, out), "writedata of nothing");
    check(ended(out, FI_WRITE) == 0, "writedata ends well");
    check(read(from_other, &data, sizeof data) == sizeof data && data == DATA, "the target is told again");
}

/* Atomic operations: with and without what was there before, with comparison, and those that there are not. */
static void atomics(fi_addr_t to, struct told *told)
{
    uint64_t at = told->start + 64, key = told->key, in[3], out[3] = {5, 6, 7}, old[3] = {1, 1, 1}, zeros[3] = {0};
    size_t count = 0;
    check(!fi_atomicvalid(endpoint, FI_UINT64, FI_SUM, &count) && count >= 3, "sums are there");
    check(fi_compare_atomicvalid(endpoint, FI_UINT64, FI_SUM, &count), "sums do not compare");
    check(!fi_write(endpoint, zeros, sizeof zeros, NULL, to, at, key, zeros), "write zeros");
    check(ended(zeros, FI_WRITE) == 0, "which ends well");
    check(!fi_atomic(endpoint, out, 3, NULL, to, at, key, FI_UINT64, FI_SUM, out), "add");
    check(complete(&(struct fi_cq_tagged_entry){0}) == 0, "which ends well, too");
    check(!fi_inject_atomic(endpoint, out, 1, to, at, key, FI_UINT64, FI_SUM), "add to the first");
    check(!fi_fetch_atomic(endpoint, out, 3, NULL, old, NULL, to, at, key, FI_UINT64, FI_MAX, out), "fetch");
    check(complete(&(struct fi_cq_tagged_entry){0}) == 0, "which ends well as well");
    check(old[0] == 10 && old[1] == 6 && old[2] == 7, "what was there before");
    check(!fi_compare_atomic(endpoint, out, 3, NULL, out, NULL, old, NULL, to, at, key, FI_UINT64, FI_CSWAP, out), "compare");
    check(complete(&(struct fi_cq_tagged_entry){0}) == 0, "which ends well again");
    check(old[0] == 10 && old[1] == 6 && old[2] == 7, "what was compared");
    check(!fi_fetch_atomic(endpoint, NULL, 3, NULL, in, NULL, to, at, told->read_only_key, FI_UINT64, FI_ATOMIC_READ, in),
          "an atomic read needs no more rights");
    check(complete(&(struct fi_cq_tagged_entry){0}) == 0 && in[0] == 10 && in[1] == 6, "which gives what is there");
    check(fi_atomic(endpoint, out, 1, NULL, to, at, key, FI_DOUBLE, FI_BOR, out) == -FI_EOPNOTSUPP, "no bits of numbers");
    check(!fi_fetch_atomic(endpoint, out, 1, NULL, in, NULL, to, at, told->read_only_key, FI_UINT64, FI_SUM, in), "add there");
    check(ended(in, 0) == FI_EACCES, "is refused");
    check(!fi_atomic(endpoint, out, 3, NULL, to, told->start + LONGEST - 16, key, FI_UINT64, FI_SUM, out), "over the end");
    check(ended(out, 0) == FI_EACCES, "is refused, too");
}

static void refusals(fi_addr_t to, struct told *told, int from_other)
{
    static char bytes[20000];
    uint64_t start = told->start, end = start + LONGEST, data;
    for (size_t len = 1; len <= sizeof bytes; len += sizeof bytes - 1) {
        check(!fi_write(endpoint, bytes, len, NULL, to, end - len + 1, told->key, bytes), "write over the end");
        check(ended(bytes, 0) == FI_EACCES, "is refused");
        check(!fi_write(endpoint, bytes, len, NULL, to, start - 1, told->key, bytes), "write before the beginning");
        check(ended(bytes, 0) == FI_EACCES, "is refused, too");
        check(!fi_write(endpoint, bytes, len, NULL, to, start, told->read_only_key, bytes), "write what is read-only");
        check(ended(bytes, 0) == FI_EACCES, "is refused as well");
        check(!fi_read(endpoint, bytes, len, NULL, to, end - len + 1, told->key, bytes), "read over the end");
        check(ended(bytes, 0) == FI_EACCES, "a read is refused");
        check(!fi_read(endpoint, bytes, len, NULL, to, start, told->key ^ 1, bytes), "read with a wrong key");
        check(ended(bytes, 0) == FI_ENOKEY, "a key is refused");
    }
    check(!fi_inject_write(endpoint, bytes, 1, to, start, told->key ^ 1), "inject with a wrong key");
    check(ended(NULL, 0) == FI_ENOKEY, "which is told as well");
    check(!fi_writedata(endpoint, bytes, 1, NULL, DATA + 1, to, start, told->key, bytes), "the last write");
    check(ended(bytes, FI_WRITE) == 0, "which ends well");
    check(read(from_other, &data, sizeof data) == sizeof data && data == DATA + 1, "the region is gone");
    check(!fi_read(endpoint, bytes, 1, NULL, to, start, told->key, bytes), "read what is gone");
    check(ended(bytes, 0) == FI_ENOKEY, "is refused");
}

int main(void)
{
    char own[ADDRESS], *in = malloc(LONGEST), *out = calloc(1, LONGEST);
    int pipes[2];
    struct told told;
    fi_addr_t to;
    check(!pipe(pipes), "a pipe");
    pid_t child = fork();
    if (!child)
        serve(pipes[1]);
    open_all(own);
    check(read(pipes[0], &told, sizeof told) == sizeof told, "be told");
    check(fi_av_insert(table, told.name, 1, &to, 0, NULL) == 1, "insert");
    lengths(to, &told);
    counters(to, &told);
    kinds_of_calls(to, &told, pipes[0]);
    atomics(to, &told);
    refusals(to, &told, pipes[0]);
    kill(child, SIGSTOP);
    check(!fi_read(endpoint, in, LONGEST, NULL, to, told.start, told.read_only_key, in), "a read that is cut off");
    check(!fi_write(endpoint, out, LONGEST, NULL, to, told.start, told.read_only_key, out), "a write that is cut off");
    kill(child, SIGKILL);
    struct fi_cq_tagged_entry first, second;
    check(complete(&first) == FI_ECONNRESET && complete(&second) == FI_ECONNRESET, "both end with an error");
    check(first.op_context != second.op_context, "each of both ends");
    waitpid(child, NULL, 0);
    check(!fi_close(&endpoint->fid) && !fi_close(&queue->fid) && !fi_close(&table->fid), "close");
    check(!fi_close(&writes->fid) && !fi_close(&reads->fid), "close the counters");
    puts("ok");
    return 0;
}
