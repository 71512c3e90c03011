/* NICs, memory, completion queues, callbacks and names by the text of the specification, and misuse of all. */
#include "pair.h"

const char *run;

/* Handles that are null, closed or of another kind, and null pointers. */
static void handles(void)
{
    struct nic nic;
    VIP_NIC_HANDLE none;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_CQ_HANDLE queue;
    open_nic(&nic);
    VIP_VI_HANDLE vi = new_vi(&nic, VIP_SERVICE_UNRELIABLE, NULL, NULL), other_vi;
    OK(VipCreateCQ(nic.handle, 10, &queue));
    VIP_PVOID wrong[] = {NULL, (VIP_PVOID)64, (VIP_PVOID)&nic, vi, queue, nic.tag, (VIP_PVOID)-1};
    VIP_DESCRIPTOR *done;
    VIP_BOOLEAN received_one;
    for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        if (wrong[k] == nic.handle)
            continue;
        IS(VipQueryNic(wrong[k], &attributes), VIP_INVALID_PARAMETER);
        IS(VipCloseNic(wrong[k]), VIP_INVALID_PARAMETER);
        IS(VipCreateCQ(wrong[k], 10, &none), VIP_INVALID_PARAMETER);
        IS(VipConnectReject(wrong[k]), VIP_INVALID_PARAMETER);
        IS(VipConnectAccept(wrong[k], vi), VIP_INVALID_PARAMETER);
        IS(VipErrorCallback(wrong[k], NULL, NULL), VIP_INVALID_PARAMETER);
        IS(VipNSInit(wrong[k], NULL), VIP_INVALID_PARAMETER);
        if (wrong[k] != vi) {
            IS(VipRecvDone(wrong[k], &done), VIP_INVALID_PARAMETER);
            IS(VipSendWait(wrong[k], 0, &done), VIP_INVALID_PARAMETER);
            IS(VipDisconnect(wrong[k]), VIP_INVALID_PARAMETER);
            IS(VipDestroyVi(wrong[k]), VIP_INVALID_PARAMETER);
        }
        if (wrong[k] != queue) {
            IS(VipCQDone(wrong[k], &other_vi, &received_one), VIP_INVALID_PARAMETER);
            IS(VipResizeCQ(wrong[k], 5), VIP_INVALID_PARAMETER);
            IS(VipDestroyCQ(wrong[k]), VIP_INVALID_PARAMETER);
        }
        if (wrong[k] != nic.tag)
            IS(VipDestroyPtag(nic.handle, wrong[k]), VIP_INVALID_PTAG);
    }
    IS(VipOpenNic(NULL, &none), VIP_INVALID_PARAMETER);
    IS(VipOpenNic("barewire0", NULL), VIP_INVALID_PARAMETER);
    IS(VipOpenNic("VINIC0", &none), VIP_INVALID_PARAMETER);
    IS(VipQueryNic(nic.handle, NULL), VIP_INVALID_PARAMETER);
    IS(VipRecvDone(vi, NULL), VIP_INVALID_PARAMETER);
    IS(VipCreatePtag(nic.handle, NULL), VIP_INVALID_PARAMETER);
    IS(VipCreateVi(nic.handle, NULL, NULL, NULL, &other_vi), VIP_INVALID_PARAMETER);
    IS(VipSendNotify(vi, NULL, NULL), VIP_INVALID_PARAMETER);
    IS(VipCQDone(queue, NULL, NULL), VIP_INVALID_PARAMETER);
    OK(VipResizeCQ(queue, 20));
    OK(VipDestroyCQ(queue));
    IS(VipDestroyCQ(queue), VIP_INVALID_PARAMETER);
    end_vi(vi);
    IS(VipDestroyVi(vi), VIP_INVALID_PARAMETER);
    close_nic(&nic);
    IS(VipQueryNic(nic.handle, &attributes), VIP_INVALID_PARAMETER);
}

/* What a NIC says of itself is what the specification asks for at least. */
static void attributes(void)
{
    struct nic nic;
    open_nic(&nic);
    VIP_NIC_ATTRIBUTES *of = &nic.attributes;
    CHECK(strcmp(of->Name, "barewire0") == 0 && of->ThreadSafe == VIP_TRUE);
    CHECK(of->MaxDiscriminatorLen >= 16 && of->MaxSegmentsPerDesc >= 252 && of->MaxTransferSize >= 32768);
    CHECK(of->MaxDescriptorsPerQueue >= 1024 && of->MaxVI >= 1024 && of->MaxCQ >= 1024 && of->MaxPtags >= 1024);
    CHECK(of->ReliabilityLevelSupport == 7 && of->RDMAReadSupport == 6);
    VIP_VI_ATTRIBUTES right = {VIP_SERVICE_UNRELIABLE, 100, NULL, nic.tag, VIP_FALSE, VIP_FALSE}, wrong;
    VIP_VI_HANDLE vi;
#define WITH(field, value, code)                                                                                      \
    wrong = right;                                                                                                    \
    wrong.field = (value);                                                                                            \
    IS(VipCreateVi(nic.handle, &wrong, NULL, NULL, &vi), (code))
    WITH(ReliabilityLevel, 3, VIP_INVALID_RELIABILITY_LEVEL);
    WITH(ReliabilityLevel, 0, VIP_INVALID_RELIABILITY_LEVEL);
    WITH(MaxTransferSize, of->MaxTransferSize + 1, VIP_INVALID_MTU);
    WITH(MaxTransferSize, 0, VIP_INVALID_MTU);
    WITH(QoS, &nic, VIP_INVALID_QOS);
    WITH(Ptag, NULL, VIP_INVALID_PTAG);
    WITH(EnableRdmaRead, VIP_TRUE, VIP_INVALID_RDMAREAD);
    IS(VipCreateVi(nic.handle, &right, nic.tag, NULL, &vi), VIP_INVALID_PARAMETER);
    OK(VipCreateVi(nic.handle, &right, NULL, NULL, &vi));
    IS(VipDestroyPtag(nic.handle, nic.tag), VIP_ERROR_RESOURCE);
    OK(VipDestroyVi(vi));
    close_nic(&nic);
}

/* Memory is known by its handle and its first address. */
static void memory(void)
{
    struct nic nic;
    open_nic(&nic);
    VIP_MEM_HANDLE handle;
    VIP_PROTECTION_HANDLE tag;
    OK(VipCreatePtag(nic.handle, &tag));
    VIP_MEM_ATTRIBUTES one_kind = {nic.tag, VIP_TRUE, VIP_FALSE}, other = {tag, VIP_FALSE, VIP_TRUE}, told;
    OK(VipRegisterMem(nic.handle, nic.area, 100, &one_kind, &handle));
    OK(VipQueryMem(nic.handle, nic.area, handle, &told));
    CHECK(told.Ptag == nic.tag && told.EnableRdmaWrite == VIP_TRUE && told.EnableRdmaRead == VIP_FALSE);
    IS(VipQueryMem(nic.handle, nic.area + 1, handle, &told), VIP_INVALID_PARAMETER);
    OK(VipSetMemAttributes(nic.handle, nic.area, handle, &other));
    OK(VipQueryMem(nic.handle, nic.area, handle, &told));
    CHECK(told.Ptag == tag && told.EnableRdmaWrite == VIP_FALSE && told.EnableRdmaRead == VIP_TRUE);
    IS(VipDestroyPtag(nic.handle, tag), VIP_ERROR_RESOURCE);
    IS(VipDeregisterMem(nic.handle, nic.area + 1, handle), VIP_INVALID_PARAMETER);
    OK(VipDeregisterMem(nic.handle, nic.area, handle));
    IS(VipDeregisterMem(nic.handle, nic.area, handle), VIP_INVALID_PARAMETER);
    IS(VipRegisterMem(nic.handle, NULL, 100, &one_kind, &handle), VIP_INVALID_PARAMETER);
    IS(VipRegisterMem(nic.handle, nic.area, 0, &one_kind, &handle), VIP_INVALID_PARAMETER);
    IS(VipRegisterMem(nic.handle, nic.area, ~0UL, &one_kind, &handle), VIP_INVALID_PARAMETER);
    OK(VipDestroyPtag(nic.handle, tag));
    IS(VipRegisterMem(nic.handle, nic.area, 100, &other, &handle), VIP_INVALID_PTAG);
    close_nic(&nic);
}

/* One completion queue for the queues of several VIs: an entry for each descriptor, in the order in which they are done. */
static void completion_queue(void)
{
    enum { VIS = 3, EACH = 20 };
    struct nic a, b;
    VIP_CQ_HANDLE queue;
    VIP_VI_HANDLE servers[VIS], clients[VIS], vi;
    VIP_BOOLEAN received_one;
    VIP_DESCRIPTOR *done;
    open_nic(&a);
    open_nic(&b);
    OK(VipCreateCQ(a.handle, 2, &queue));
    IS(VipCQDone(queue, &vi, &received_one), VIP_NOT_DONE);
    IS(VipCQWait(queue, 20, &vi, &received_one), VIP_TIMEOUT);
    for (int k = 0; k < VIS; k++) {
        servers[k] = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY, queue, queue);
        clients[k] = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
        for (int n = 0; n < EACH; n++)
            receive_bytes(&a, servers[k], EACH * k + n, 0, 8);
        join(&a, servers[k], &b, clients[k]);
    }
    IS(VipDestroyCQ(queue), VIP_ERROR_RESOURCE);
    IS(VipRecvWait(servers[0], 0, &done), VIP_INVALID_PARAMETER);
    IS(VipRecvNotify(servers[0], NULL, (VIP_VI_CALLBACK)abort), VIP_INVALID_PARAMETER);
    for (int n = 0; n < EACH; n++)
        for (int k = 0; k < VIS; k++) {
            send_bytes(&b, clients[k], VIS * n + k, 0, 8);
            sent(clients[k]);
        }
    int counts[VIS] = {0};
    for (int n = 0; n < VIS * EACH; n++) {
        OK(VipCQWait(queue, LONG, &vi, &received_one));
        CHECK(received_one == VIP_TRUE);
        int k = 0;
        while (servers[k] != vi)
            CHECK(++k < VIS);
        OK(VipRecvDone(vi, &done));
        CHECK((char *)done == a.area + 64 * (EACH * k + counts[k]++));
    }
    IS(VipCQDone(queue, &vi, &received_one), VIP_NOT_DONE);
    /* Sends have entries, too, and so have descriptors that are flushed. */
    receive_bytes(&b, clients[1], 500, 0, 8);
    send_bytes(&a, servers[1], 500, 0, 8);
    OK(VipCQWait(queue, LONG, &vi, &received_one));
    CHECK(vi == servers[1] && received_one == VIP_FALSE);
    OK(VipSendDone(vi, &done));
    receive_bytes(&a, servers[2], 501, 0, 8);
    OK(VipDisconnect(clients[2]));
    OK(VipCQWait(queue, LONG, &vi, &received_one));
    CHECK(vi == servers[2] && received_one == VIP_TRUE);
    IS(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
    /* Entries of a VI that is destroyed go with it. */
    receive_bytes(&a, servers[0], 502, 0, 8);
    for (int k = 0; k < VIS; k++) {
        end_vi(clients[k]);
        end_vi(servers[k]);
    }
    IS(VipCQDone(queue, &vi, &received_one), VIP_NOT_DONE);
    OK(VipDestroyCQ(queue));
    close_nic(&b);
    close_nic(&a);
}

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int count;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *descriptor;
    VIP_BOOLEAN received_one;
    VIP_ERROR_CODE error;
};

static struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void hear(VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_BOOLEAN received_one,
                 VIP_ERROR_CODE error)
{
    pthread_mutex_lock(&heard.lock);
    heard.count++;
    heard.nic = nic;
    heard.vi = vi;
    heard.descriptor = descriptor;
    heard.received_one = received_one;
    heard.error = error;
    pthread_cond_signal(&heard.more);
    pthread_mutex_unlock(&heard.lock);
}

static void hear_descriptor(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor)
{
    CHECK(context == &heard);
    hear(nic, vi, descriptor, 0, 0);
}

static void hear_entry(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN received_one)
{
    CHECK(context == &heard);
    /* A function that is called may call the library. */
    VIP_DESCRIPTOR *done;
    OK(VipRecvDone(vi, &done));
    hear(nic, vi, done, received_one, 0);
}

static void hear_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    CHECK(context == &heard && error->ResourceCode == VIP_RESOURCE_VI);
    hear(error->NicHandle, error->ViHandle, error->DescriptorPtr, 0, error->ErrorCode);
}

static void wait_to_hear(int count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONG / 1000;
    pthread_mutex_lock(&heard.lock);
    while (heard.count < count)
        CHECK(pthread_cond_timedwait(&heard.more, &heard.lock, &until) == 0);
    CHECK(heard.count == count);
    pthread_mutex_unlock(&heard.lock);
}

/* Functions are called for the next descriptor, the next entry, and errors. The program does nothing else meanwhile. */
static void callbacks(void)
{
    struct pair pair;
    VIP_CQ_HANDLE queue;
    VIP_DESCRIPTOR *done;
    heard.count = 0;
    open_pair(&pair, VIP_SERVICE_RELIABLE_RECEPTION);
    OK(VipRecvNotify(pair.server, &heard, hear_descriptor));
    VIP_DESCRIPTOR *receive = receive_bytes(&pair.a, pair.server, 0, 0, 8);
    receive_bytes(&pair.a, pair.server, 1, 0, 8);
    send_bytes(&pair.b, pair.client, 0, 0, 8);
    send_bytes(&pair.b, pair.client, 1, 0, 8);
    wait_to_hear(1);
    CHECK(heard.nic == pair.a.handle && heard.vi == pair.server && heard.descriptor == receive);
    received(pair.server);
    sent(pair.client);
    sent(pair.client);
    /* One that is done already is told at once. */
    receive_bytes(&pair.a, pair.server, 2, 0, 8);
    VIP_DESCRIPTOR *send = send_bytes(&pair.b, pair.client, 2, 0, 8);
    received(pair.server);
    OK(VipSendNotify(pair.client, &heard, hear_descriptor));
    wait_to_hear(2);
    CHECK(heard.vi == pair.client && heard.descriptor == send);
    IS(VipSendDone(pair.client, &done), VIP_NOT_DONE);

    /* An entry of a completion queue. */
    OK(VipCreateCQ(pair.a.handle, 10, &queue));
    VIP_VI_HANDLE server = new_vi(&pair.a, VIP_SERVICE_RELIABLE_DELIVERY, queue, queue);
    VIP_VI_HANDLE client = new_vi(&pair.b, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    join(&pair.a, server, &pair.b, client);
    OK(VipCQNotify(queue, &heard, hear_entry));
    receive = receive_bytes(&pair.a, server, 3, 0, 8);
    send_bytes(&pair.b, client, 3, 0, 8);
    wait_to_hear(3);
    CHECK(heard.vi == server && heard.descriptor == receive && heard.received_one == VIP_TRUE);
    sent(client);

    /* The end of a connection, and a write that is not permitted. */
    OK(VipErrorCallback(pair.a.handle, &heard, hear_error));
    OK(VipDisconnect(client));
    wait_to_hear(4);
    CHECK(heard.nic == pair.a.handle && heard.vi == server && heard.error == VIP_ERROR_CONN_LOST);
    OK(VipPostSend(pair.client, rdma(&pair.b, 4, VIP_CONTROL_OP_RDMAWRITE, data(&pair.b, 0), 8, 64, 4711),
                   pair.b.memory));
    failed_send(pair.client, VIP_STATUS_RDMA_PROT_ERROR | VIP_STATUS_OP_RDMA_WRITE);
    wait_to_hear(6);
    CHECK(heard.vi == pair.server && heard.error == VIP_ERROR_CONN_LOST);
    OK(VipErrorCallback(pair.a.handle, NULL, NULL));
    end_vi(client);
    end_vi(server);
    OK(VipDestroyCQ(queue));
    close_pair(&pair);
}

/* This host by its names and addresses. */
static void names(void)
{
    struct nic nic;
    char name[256] = "", here[256] = "";
    VIP_ULONG length = sizeof name;
    union address address, found;
    VIP_NET_ADDRESS *pointers[1] = {&found.net};
    VIP_AUTODISCOVERY_LIST list = {0, pointers, 1};
    open_nic(&nic);
    OK(VipNSInit(nic.handle, NULL));
    OK(VipNSGetHostByName(nic.handle, "localhost", &address.net, 0));
    CHECK(address.net.HostAddressLen == nic.attributes.NicAddressLen && address.net.DiscriminatorLen == 0);
    CHECK(memcmp(address.net.HostAddress, nic.attributes.LocalNicAddress, nic.attributes.NicAddressLen) == 0);
    IS(VipNSGetHostByName(nic.handle, "localhost", &address.net, 1), VIP_ERROR_NAMESERVICE);
    IS(VipNSGetHostByName(nic.handle, "no.such.host", &address.net, 0), VIP_ERROR_NAMESERVICE);
    CHECK(gethostname(here, sizeof here - 1) == 0);
    OK(VipNSGetHostByName(nic.handle, here, &address.net, 0));
    OK(VipNSGetHostByAddr(nic.handle, &address.net, name, &length));
    CHECK(strcmp(name, here) == 0 && length == strlen(here) + 1);
    length = 1;
    IS(VipNSGetHostByAddr(nic.handle, &address.net, name, &length), VIP_ERROR_RESOURCE);
    CHECK(length == strlen(here) + 1);
    address.net.HostAddress[3] = 99;
    IS(VipNSGetHostByAddr(nic.handle, &address.net, name, &length), VIP_ERROR_NAMESERVICE);
    OK(VipQuerySystemManagementInfo(nic.handle, VIP_SMI_AUTODISCOVERY, &list));
    CHECK(list.NumAdAddrs == 1 && found.net.HostAddressLen == nic.attributes.NicAddressLen);
    IS(VipQuerySystemManagementInfo(nic.handle, 2, &list), VIP_INVALID_PARAMETER);
    list.NumAdAddrs = 0;
    IS(VipQuerySystemManagementInfo(nic.handle, VIP_SMI_AUTODISCOVERY, &list), VIP_ERROR_RESOURCE);
    OK(VipNSShutdown(nic.handle));
    close_nic(&nic);
}

static const struct test TESTS[] = {
    {"handles", handles}, {"attributes", attributes},
    {"memory", memory},   {"completion_queue", completion_queue},
    {"callbacks", callbacks}, {"names", names},
};

int main(int argc, char **argv)
{
    return run_all(argc, argv, TESTS, sizeof TESTS / sizeof *TESTS);
}
