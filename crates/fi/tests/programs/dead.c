/* Two endpoints of libfabric in two processes. The other one is killed while this one waits for a message of it, and
 * while a long message for it is under way: both must end with an error. Prints "ok". */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ADDRESS = 29 };

static struct fid_ep *endpoint;
static struct fid_cq *queue;
static struct fid_av *table;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

static void open_all(char *own)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    size_t len = ADDRESS;
    hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("barewire");
    check(!fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info), "the provider is there");
    check(!fi_fabric(info->fabric_attr, &fabric, NULL), "fabric");
    check(!fi_domain(fabric, info, &domain, NULL), "domain");
    check(!fi_cq_open(domain, &cq, &queue, NULL), "queue");
    check(!fi_av_open(domain, &av, &table, NULL), "table");
    check(!fi_endpoint(domain, info, &endpoint, NULL), "endpoint");
    check(!fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV), "bind the queue");
    check(!fi_ep_bind(endpoint, &table->fid, 0), "bind the table");
    check(!fi_enable(endpoint), "enable");
    check(!fi_getname(&endpoint->fid, own, &len) && len == ADDRESS, "name");
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

/* Waits for a completion, and returns 0 or its error. */
static int complete(void **context)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got;
    do
        got = fi_cq_read(queue, &entry, 1);
    while (got == -FI_EAGAIN);
    if (got == 1) {
        *context = entry.op_context;
        return 0;
    }
    check(got == -FI_EAVAIL && fi_cq_readerr(queue, &error, 0) == 1, "an error is there");
    *context = error.op_context;
    return error.err;
}

int main(void)
{
    char own[ADDRESS], other[ADDRESS];
    int up[2], down[2], first, second;
    size_t len = 1 << 22;
    char *out = calloc(1, len), in[8];
    fi_addr_t address;
    void *context, *also;
    check(!pipe(up) && !pipe(down), "pipes");
    pid_t child = fork();
    open_all(own);
    check(write(child ? down[1] : up[1], own, ADDRESS) == ADDRESS, "tell the name");
    check(read(child ? up[0] : down[0], other, ADDRESS) == ADDRESS, "get the name");
    check(fi_av_insert(table, other, 1, &address, 0, NULL) == 1, "insert");
    if (!child) {
        /* A first message, so that there is a connection; then nothing is ever received. */
        check(!fi_tsend(endpoint, "hello", 5, NULL, address, 1, in), "send");
        check(complete(&context) == 0 && context == in, "the child's send ends");
        for (;;)
            fi_cq_read(queue, NULL, 0);
    }
    check(!fi_trecv(endpoint, in, sizeof in, NULL, address, 1, 0, in), "receive");
    check(complete(&context) == 0 && context == in && !memcmp(in, "hello", 5), "the first message comes");
    check(!fi_trecv(endpoint, in, sizeof in, NULL, address, 2, 0, in), "receive what will not come");
    check(!fi_tsend(endpoint, out, len, NULL, address, 3, out), "send what will not arrive");
    kill(child, SIGKILL);
    first = complete(&context);
    second = complete(&also);
    check(first == FI_ECONNRESET && second == FI_ECONNRESET, "both end with an error");
    check(context != also, "each of both ends");
    check(!fi_tsend(endpoint, out, 8, NULL, address, 3, out), "send to the dead");
    check(complete(&context) == FI_ECONNRESET, "which is told");
    check(!fi_trecv(endpoint, in, sizeof in, NULL, address, 2, 0, in), "receive from the dead");
    check(complete(&context) == FI_ECONNRESET, "which is told, too");
    waitpid(child, NULL, 0);
    check(!fi_close(&endpoint->fid) && !fi_close(&queue->fid) && !fi_close(&table->fid), "close");
    puts("ok");
    return 0;
}
