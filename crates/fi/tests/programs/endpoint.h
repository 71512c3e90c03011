/* What the test programs for libfabric share: one endpoint of the provider with a queue of completions and a table of
 * addresses, and checks that end the program. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of an address of the provider. */
enum { ADDRESS = 29 };

static struct fid_domain *domain;
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

/* What a program asks of the provider. */
static struct fi_info *hints_for(uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("barewire");
    return hints;
}

/* Opens the endpoint that the provider has for `hints`, which are freed. It has yet to be enabled. */
static void open_endpoint(struct fi_info *hints)
{
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    check(!fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info), "the provider is there");
    check((info->caps & hints->caps) == hints->caps, "it has what was asked for");
    int mr_mode = hints->domain_attr->mr_mode;
    check(!mr_mode || info->domain_attr->mr_mode == mr_mode, "it has regions as was asked for");
    check(!fi_fabric(info->fabric_attr, &fabric, NULL), "fabric");
    check(!fi_domain(fabric, info, &domain, NULL), "domain");
    check(!fi_cq_open(domain, &cq, &queue, NULL), "queue");
    check(!fi_av_open(domain, &av, &table, NULL), "table");
    check(!fi_endpoint(domain, info, &endpoint, NULL), "endpoint");
    check(!fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV), "bind the queue");
    check(!fi_ep_bind(endpoint, &table->fid, 0), "bind the table");
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

/* Enables the endpoint, and gives its address. */
static void enable(char own[ADDRESS])
{
    size_t len = ADDRESS;
    check(!fi_enable(endpoint), "enable");
    check(!fi_getname(&endpoint->fid, own, &len) && len == ADDRESS, "name");
}

/* Waits for a completion, and returns 0 or its error. */
static inline int complete(struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_err_entry error = {0};
    ssize_t got;
    do
        got = fi_cq_read(queue, entry, 1);
    while (got == -FI_EAGAIN);
    if (got == 1)
        return 0;
    check(got == -FI_EAVAIL && fi_cq_readerr(queue, &error, 0) == 1, "an error is there");
    entry->op_context = error.op_context;
    entry->flags = error.flags;
    entry->len = error.len;
    return error.err;
}
