/* Connections and states by the text of the specification: no match, reject, time-outs, peers, disconnects, handles. */
#include "pair.h"

const char *run;

/* A request that finds nobody ends at once; one that nobody answers, and a wait that nobody comes to, when time is over. */
static void nobody(void)
{
    struct nic a, b;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    union address remote;
    open_nic(&a);
    open_nic(&b);
    union address local = at(&b, "c"), server = at(&a, run);
    VIP_VI_HANDLE vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    IS(VipConnectRequest(vi, &local.net, &server.net, LONG, &attributes), VIP_NO_MATCH);
    CHECK(state_of(vi) == VIP_STATE_IDLE);
    IS(VipConnectWait(a.handle, &server.net, 20, &remote.net, &attributes, &request), VIP_TIMEOUT);
    IS(VipConnectWait(a.handle, &server.net, 0, &remote.net, &attributes, &request), VIP_TIMEOUT);
    IS(VipConnectRequest(vi, &local.net, &server.net, LONG, &attributes), VIP_NO_MATCH);
    /* Addresses that make no sense, or are not of this NIC. */
    IS(VipConnectWait(a.handle, NULL, 20, &remote.net, &attributes, &request), VIP_INVALID_PARAMETER);
    server.net.HostAddressLen = 3;
    IS(VipConnectRequest(vi, &local.net, &server.net, LONG, &attributes), VIP_INVALID_PARAMETER);
    IS(VipConnectWait(a.handle, &server.net, 20, &remote.net, &attributes, &request), VIP_INVALID_PARAMETER);
    CHECK(state_of(vi) == VIP_STATE_IDLE);
    end_vi(vi);
    close_nic(&b);
    close_nic(&a);
}

struct asking {
    VIP_VI_HANDLE vi;
    union address local, remote;
    VIP_ULONG timeout;
    VIP_RETURN code;
    VIP_VI_ATTRIBUTES attributes;
};

/* Asks until somebody is there. */
static void *ask(void *argument)
{
    struct asking *of = argument;
    do {
        of->code =
            VipConnectRequest(of->vi, &of->local.net, &of->remote.net, of->timeout, &of->attributes);
        if (of->code == VIP_NO_MATCH)
            usleep(1000);
    } while (of->code == VIP_NO_MATCH);
    return NULL;
}

/* What the server learns of a client; reject; a client that is not answered; VIs that do not fit; accept. */
static void answers(void)
{
    struct nic a, b;
    VIP_VI_ATTRIBUTES told;
    VIP_CONN_HANDLE request;
    union address remote;
    pthread_t thread;
    open_nic(&a);
    open_nic(&b);
    union address server = at(&a, run);
    struct asking asking = {.local = at(&b, "who"), .remote = server, .timeout = LONG};
    asking.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);

    CHECK(pthread_create(&thread, NULL, ask, &asking) == 0);
    OK(VipConnectWait(a.handle, &server.net, LONG, &remote.net, &told, &request));
    CHECK(remote.net.HostAddressLen == a.attributes.NicAddressLen && remote.net.DiscriminatorLen == 3);
    CHECK(memcmp(&remote, &asking.local, 4 + a.attributes.NicAddressLen + 3) == 0);
    CHECK(told.ReliabilityLevel == VIP_SERVICE_RELIABLE_DELIVERY && told.MaxTransferSize == 1 << 16);
    CHECK(told.EnableRdmaWrite == VIP_TRUE && told.EnableRdmaRead == VIP_TRUE);
    CHECK(state_of(asking.vi) == VIP_STATE_CONNECT_PENDING);
    IS(VipDestroyVi(asking.vi), VIP_INVALID_STATE);
    OK(VipConnectReject(request));
    IS(VipConnectReject(request), VIP_INVALID_PARAMETER);
    CHECK(pthread_join(thread, NULL) == 0 && asking.code == VIP_REJECT);
    CHECK(state_of(asking.vi) == VIP_STATE_IDLE);

    /* Not answered in time: then it can not be accepted any more. */
    asking.timeout = 100;
    CHECK(pthread_create(&thread, NULL, ask, &asking) == 0);
    OK(VipConnectWait(a.handle, &server.net, LONG, &remote.net, &told, &request));
    CHECK(pthread_join(thread, NULL) == 0 && asking.code == VIP_TIMEOUT);
    VIP_VI_HANDLE vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    VIP_RETURN late = VipConnectAccept(request, vi);
    CHECK(late == VIP_TIMEOUT || late == VIP_SUCCESS);
    if (late == VIP_SUCCESS)
        becomes(vi, VIP_STATE_ERROR);
    OK(VipDisconnect(vi));
    asking.timeout = LONG;

    /* VIs that do not fit leave the request as it is. */
    CHECK(pthread_create(&thread, NULL, ask, &asking) == 0);
    OK(VipConnectWait(a.handle, &server.net, LONG, NULL, NULL, &request));
    VIP_VI_HANDLE other = new_vi(&a, VIP_SERVICE_UNRELIABLE, NULL, NULL);
    IS(VipConnectAccept(request, other), VIP_INVALID_RELIABILITY_LEVEL);
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, a.tag, VIP_FALSE, VIP_FALSE};
    OK(VipSetViAttributes(other, &attributes));
    IS(VipConnectAccept(request, other), VIP_INVALID_MTU);
    IS(VipConnectAccept(request, asking.vi), VIP_INVALID_PARAMETER);
    IS(VipCloseNic(a.handle), VIP_ERROR_RESOURCE);
    OK(VipConnectAccept(request, vi));
    CHECK(pthread_join(thread, NULL) == 0 && asking.code == VIP_SUCCESS);
    CHECK(asking.attributes.MaxTransferSize == 1 << 16);
    IS(VipSetViAttributes(vi, &attributes), VIP_INVALID_STATE);
    IS(VipConnectRequest(asking.vi, &asking.local.net, &server.net, LONG, &told), VIP_INVALID_STATE);
    end_vi(other);
    end_vi(vi);
    becomes(asking.vi, VIP_STATE_ERROR);
    end_vi(asking.vi);
    close_nic(&b);
    close_nic(&a);
}

/* A disconnect flushes what is not done, at both ends; then both may connect again. */
static void disconnect(void)
{
    struct pair pair;
    open_pair(&pair, VIP_SERVICE_RELIABLE_DELIVERY);
    for (int again = 0; again < 3; again++) {
        for (int k = 0; k < 3; k++) {
            receive_bytes(&pair.a, pair.server, k, 0, 10);
            receive_bytes(&pair.b, pair.client, k, 0, 10);
        }
        memset(data(&pair.b, 100), 5, 10);
        send_bytes(&pair.b, pair.client, 10, 100, 10);
        sent(pair.client);
        OK(VipDisconnect(pair.client));
        CHECK(state_of(pair.client) == VIP_STATE_IDLE);
        for (int k = 0; k < 3; k++)
            failed_receive(pair.client, VIP_STATUS_DESC_FLUSHED_ERROR);
        /* What was sent before is there. */
        CHECK(received(pair.server)->CS.Length == 10 && *data(&pair.a, 0) == 5);
        becomes(pair.server, VIP_STATE_ERROR);
        failed_receive(pair.server, VIP_STATUS_DESC_FLUSHED_ERROR);
        failed_receive(pair.server, VIP_STATUS_DESC_FLUSHED_ERROR);
        /* In the state of error all is flushed, and nothing can be done but to disconnect. */
        receive_bytes(&pair.a, pair.server, 5, 0, 10);
        failed_receive(pair.server, VIP_STATUS_DESC_FLUSHED_ERROR);
        send_bytes(&pair.a, pair.server, 5, 0, 10);
        failed_send(pair.server, VIP_STATUS_DESC_FLUSHED_ERROR);
        IS(VipDestroyVi(pair.server), VIP_INVALID_STATE);
        OK(VipDisconnect(pair.server));
        OK(VipDisconnect(pair.server));
        join(&pair.a, pair.server, &pair.b, pair.client);
        works(&pair);
    }
    close_pair(&pair);
}

/* Descriptors of a VI that is not connected. */
static void idle(void)
{
    struct nic nic;
    open_nic(&nic);
    VIP_VI_HANDLE vi = new_vi(&nic, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    VIP_VI_STATE state;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN sends, receives;
    VIP_DESCRIPTOR *done;
    send_bytes(&nic, vi, 0, 0, 10);
    failed_send(vi, VIP_STATUS_DESC_FLUSHED_ERROR);
    receive_bytes(&nic, vi, 1, 0, 10);
    IS(VipRecvDone(vi, &done), VIP_NOT_DONE);
    IS(VipRecvWait(vi, 20, &done), VIP_TIMEOUT);
    CHECK(done == NULL);
    OK(VipQueryVi(vi, &state, &attributes, &sends, &receives));
    CHECK(state == VIP_STATE_IDLE && sends == VIP_TRUE && receives == VIP_FALSE);
    CHECK(attributes.Ptag == nic.tag && attributes.QoS == NULL && attributes.EnableRdmaRead == VIP_TRUE);
    IS(VipDestroyVi(vi), VIP_ERROR_RESOURCE);
    IS(VipCloseNic(nic.handle), VIP_ERROR_RESOURCE);
    CHECK(end_vi(vi) == 1);
    close_nic(&nic);
}

/* Peers find each other in any order, also with equal addresses, again and again. */
static void peers(void)
{
    struct nic a, b;
    VIP_VI_ATTRIBUTES told;
    open_nic(&a);
    open_nic(&b);
    for (int k = 0; k < 6; k++) {
        char one_name[20], other_name[20];
        snprintf(one_name, sizeof one_name, "%s%d", run, k % 3);
        snprintf(other_name, sizeof other_name, "%s%d", run, k % 3 == 2 ? 2 : 1 - k % 3);
        union address one_end = at(&a, one_name), other_end = at(&b, other_name);
        VIP_VI_HANDLE x = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
        VIP_VI_HANDLE y = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
        IS(VipConnectPeerDone(x, &told), VIP_INVALID_STATE);
        OK(VipConnectPeerRequest(x, &one_end.net, &other_end.net, k == 0 ? VIP_INFINITE : LONG));
        IS(VipConnectPeerDone(x, &told), VIP_NOT_DONE);
        CHECK(state_of(x) == VIP_STATE_CONNECT_PENDING);
        IS(VipConnectPeerRequest(x, &one_end.net, &other_end.net, LONG), VIP_INVALID_STATE);
        if (k % 2)
            usleep(20000);
        OK(VipConnectPeerRequest(y, &other_end.net, &one_end.net, LONG));
        OK(VipConnectPeerWait(y, &told));
        CHECK(told.ReliabilityLevel == VIP_SERVICE_RELIABLE_DELIVERY);
        VIP_RETURN code;
        while ((code = VipConnectPeerDone(x, &told)) == VIP_NOT_DONE)
            usleep(100);
        OK(code);
        CHECK(state_of(x) == VIP_STATE_CONNECTED && state_of(y) == VIP_STATE_CONNECTED);
        struct pair pair = {a, b, x, y};
        works(&pair);
        end_vi(y);
        becomes(x, VIP_STATE_ERROR);
        end_vi(x);
    }
    close_nic(&b);
    close_nic(&a);
}

/* Peers that do not come, or do not fit, or give up. */
static void no_peers(void)
{
    struct nic a, b;
    VIP_VI_ATTRIBUTES told;
    open_nic(&a);
    open_nic(&b);
    VIP_VI_HANDLE x = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    VIP_VI_HANDLE y = new_vi(&b, VIP_SERVICE_UNRELIABLE, NULL, NULL);
    char other[20];
    snprintf(other, sizeof other, "%sz", run);
    union address one_end = at(&a, run), other_end = at(&b, other);
    /* Who calls, and who listens. */
    OK(VipConnectPeerRequest(x, &one_end.net, &other_end.net, 50));
    IS(VipConnectPeerWait(x, &told), VIP_TIMEOUT);
    CHECK(state_of(x) == VIP_STATE_IDLE);
    OK(VipConnectPeerRequest(y, &other_end.net, &one_end.net, 50));
    IS(VipConnectPeerWait(y, &told), VIP_TIMEOUT);
    CHECK(state_of(y) == VIP_STATE_IDLE);
    OK(VipConnectPeerRequest(x, &one_end.net, &other_end.net, LONG));
    OK(VipConnectPeerRequest(y, &other_end.net, &one_end.net, LONG));
    IS(VipConnectPeerWait(y, &told), VIP_INVALID_RELIABILITY_LEVEL);
    IS(VipConnectPeerWait(x, &told), VIP_REJECT);
    /* A disconnect ends a request. */
    OK(VipConnectPeerRequest(x, &one_end.net, &other_end.net, VIP_INFINITE));
    OK(VipDisconnect(x));
    IS(VipConnectPeerDone(x, &told), VIP_INVALID_STATE);
    CHECK(state_of(x) == VIP_STATE_IDLE);
    end_vi(x);
    end_vi(y);
    close_nic(&b);
    close_nic(&a);
}

/* Many VIs between two NICs, and within one. */
static void many(void)
{
    enum { MANY = 40 };
    struct nic a, b;
    VIP_VI_HANDLE servers[MANY], clients[MANY];
    open_nic(&a);
    open_nic(&b);
    for (int k = 0; k < MANY; k++) {
        struct nic *other = k % 2 ? &a : &b;
        servers[k] = new_vi(&a, LEVELS[k % 3], NULL, NULL);
        clients[k] = new_vi(other, LEVELS[k % 3], NULL, NULL);
        join(&a, servers[k], other, clients[k]);
    }
    for (int k = 0; k < MANY; k++) {
        struct pair pair = {a, k % 2 ? a : b, servers[k], clients[k]};
        VIP_DESCRIPTOR *receive = receive_bytes(&pair.a, pair.server, 2 * k, 100 * k, 4);
        memcpy(data(&pair.b, 8000 + 100 * k), &k, 4);
        send_bytes(&pair.b, pair.client, 2 * k + 1, 8000 + 100 * k, 4);
        CHECK(received(pair.server) == receive && memcmp(data(&pair.a, 100 * k), &k, 4) == 0);
        sent(pair.client);
    }
    for (int k = 0; k < MANY; k++) {
        end_vi(clients[k]);
        end_vi(servers[k]);
    }
    close_nic(&b);
    close_nic(&a);
}

static const struct test TESTS[] = {
    {"nobody", nobody},   {"answers", answers},   {"disconnect", disconnect}, {"idle", idle},
    {"peers", peers},     {"no_peers", no_peers}, {"many", many},
};

int main(int argc, char **argv)
{
    return run_all(argc, argv, TESTS, sizeof TESTS / sizeof *TESTS);
}
