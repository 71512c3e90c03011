/* Two NICs in one process, and connected VIs of them; cases by name. */
#ifndef VIPL_TESTS_PAIR_H
#define VIPL_TESTS_PAIR_H

#include <pthread.h>
#include <time.h>

#include "common.h"

struct pair {
    struct nic a, b;
    /* The VI of the server, and that of the client. */
    VIP_VI_HANDLE server, client;
};

/* Part of every discriminator of this run. */
extern const char *run;

struct calling {
    VIP_VI_HANDLE vi;
    union address local, remote;
};

static void *call_in_thread(void *argument)
{
    struct calling *calling = argument;
    call(calling->vi, &calling->local, &calling->remote);
    return NULL;
}

/* Connects two VIs by client and server. */
__attribute__((unused)) static void join(struct nic *a, VIP_VI_HANDLE server, struct nic *b, VIP_VI_HANDLE client)
{
    pthread_t thread;
    struct calling calling = {client, at(b, "c"), at(a, run)};
    CHECK(pthread_create(&thread, NULL, call_in_thread, &calling) == 0);
    union address local = at(a, run);
    serve(a, server, &local);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(state_of(server) == VIP_STATE_CONNECTED && state_of(client) == VIP_STATE_CONNECTED);
}

__attribute__((unused)) static void open_pair(struct pair *pair, VIP_RELIABILITY_LEVEL level)
{
    open_nic(&pair->a);
    open_nic(&pair->b);
    pair->server = new_vi(&pair->a, level, NULL, NULL);
    pair->client = new_vi(&pair->b, level, NULL, NULL);
    join(&pair->a, pair->server, &pair->b, pair->client);
}

/* Disconnects a VI, takes all descriptors out of its queues and destroys it. Returns how many were flushed. */
__attribute__((unused)) static int end_vi(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN code;
    int flushed = 0;
    OK(VipDisconnect(vi));
    CHECK(state_of(vi) == VIP_STATE_IDLE);
    while ((code = VipSendDone(vi, &done)) != VIP_NOT_DONE)
        flushed += code == VIP_DESCRIPTOR_ERROR && done->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR;
    while ((code = VipRecvDone(vi, &done)) != VIP_NOT_DONE)
        flushed += code == VIP_DESCRIPTOR_ERROR && done->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR;
    OK(VipDestroyVi(vi));
    return flushed;
}

__attribute__((unused)) static void close_pair(struct pair *pair)
{
    end_vi(pair->client);
    end_vi(pair->server);
    close_nic(&pair->b);
    close_nic(&pair->a);
}

/* The next descriptor that is done, which must have failed with this status, besides the bit that says that it is done. */
__attribute__((unused)) static VIP_DESCRIPTOR *failed_send(VIP_VI_HANDLE vi, VIP_UINT32 status)
{
    VIP_DESCRIPTOR *done;
    IS(VipSendWait(vi, LONG, &done), VIP_DESCRIPTOR_ERROR);
    CHECK(done->CS.Status == (status | VIP_STATUS_DONE));
    return done;
}

__attribute__((unused)) static VIP_DESCRIPTOR *failed_receive(VIP_VI_HANDLE vi, VIP_UINT32 status)
{
    VIP_DESCRIPTOR *done;
    IS(VipRecvWait(vi, LONG, &done), VIP_DESCRIPTOR_ERROR);
    CHECK(done->CS.Status == (status | VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE));
    return done;
}

/* Waits until a VI is in this state. */
__attribute__((unused)) static void becomes(VIP_VI_HANDLE vi, VIP_VI_STATE state)
{
    for (int ms = 0; state_of(vi) != state; ms++) {
        CHECK(ms < LONG);
        usleep(1000);
    }
}

/* Sends bytes from the data area of a NIC. */
__attribute__((unused)) static VIP_DESCRIPTOR *send_bytes(struct nic *nic, VIP_VI_HANDLE vi, int number, int offset,
                                                          VIP_UINT32 length)
{
    VIP_DESCRIPTOR *send = one(nic, number, data(nic, offset), length);
    OK(VipPostSend(vi, send, nic->memory));
    return send;
}

__attribute__((unused)) static VIP_DESCRIPTOR *receive_bytes(struct nic *nic, VIP_VI_HANDLE vi, int number, int offset,
                                                             VIP_UINT32 length)
{
    VIP_DESCRIPTOR *receive = one(nic, number, data(nic, offset), length);
    OK(VipPostRecv(vi, receive, nic->memory));
    return receive;
}

/* A VI whose peer sends one byte, which arrives: it works. */
__attribute__((unused)) static void works(struct pair *pair)
{
    VIP_DESCRIPTOR *receive = receive_bytes(&pair->a, pair->server, 900, 5000, 1);
    VIP_DESCRIPTOR *send = send_bytes(&pair->b, pair->client, 900, 5000, 1);
    CHECK(sent(pair->client) == send && received(pair->server) == receive);
}

static const VIP_RELIABILITY_LEVEL LEVELS[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
                                               VIP_SERVICE_RELIABLE_RECEPTION};

struct test {
    const char *name;
    void (*run)(void);
};

/* Runs the cases of a program: all, or the one that is named. */
__attribute__((unused)) static int run_all(int argc, char **argv, const struct test *tests, int count)
{
    int ran = 0;
    CHECK(argc >= 2);
    run = discriminator(argv[1]);
    for (int k = 0; k < count; k++) {
        if (argc > 2 && strcmp(argv[2], tests[k].name) != 0)
            continue;
        tests[k].run();
        printf("%s: as it should be\n", tests[k].name);
        fflush(stdout);
        ran++;
    }
    CHECK(ran > 0);
    printf("%d cases\n", ran);
    return 0;
}

#endif
