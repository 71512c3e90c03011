/* Transfers by the text of the specification: order, immediate data, gather and scatter, errors, flow control, RDMA. */
#include "pair.h"

const char *run;

/* Descriptors are done in the order in which they were posted, with the data of the message of the same place. */
static void order(void)
{
    struct pair pair;
    open_pair(&pair, VIP_SERVICE_RELIABLE_RECEPTION);
    VIP_DESCRIPTOR *sends[100], *receives[100], *none;
    for (int k = 0; k < 100; k++)
        receives[k] = receive_bytes(&pair.a, pair.server, k, 100 * k, 100);
    IS(VipRecvDone(pair.server, &none), VIP_NOT_DONE);
    CHECK(none == NULL);
    for (int k = 0; k < 100; k++) {
        memset(data(&pair.b, 100 * k), k, 100);
        sends[k] = send_bytes(&pair.b, pair.client, k, 100 * k, k);
    }
    for (int k = 0; k < 100; k++) {
        CHECK(sent(pair.client) == sends[k]);
        CHECK(received(pair.server) == receives[k] && (int)receives[k]->CS.Length == k);
        for (int byte = 0; byte < 100; byte++)
            CHECK(data(&pair.a, 100 * k)[byte] == (byte < k ? k : 0));
    }
    IS(VipSendDone(pair.client, &none), VIP_NOT_DONE);
    close_pair(&pair);
}

/* Immediate data comes with a message and without one; a descriptor without it leaves the field alone. */
static void immediate(void)
{
    struct pair pair;
    open_pair(&pair, VIP_SERVICE_RELIABLE_DELIVERY);
    VIP_DESCRIPTOR *receive = descriptor(&pair.a, 0);
    OK(VipPostRecv(pair.server, receive, pair.a.memory));
    VIP_DESCRIPTOR *send = descriptor(&pair.b, 0);
    send->CS.Control = VIP_CONTROL_IMMEDIATE;
    send->CS.ImmediateData = 0xdeadbeef;
    OK(VipPostSend(pair.client, send, pair.b.memory));
    CHECK(received(pair.server) == receive && receive->CS.Length == 0);
    CHECK(receive->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
    CHECK(receive->CS.ImmediateData == 0xdeadbeef);
    CHECK(sent(pair.client) == send && send->CS.Status == VIP_STATUS_DONE);

    receive = one(&pair.a, 1, data(&pair.a, 0), 8);
    receive->CS.ImmediateData = 3;
    OK(VipPostRecv(pair.server, receive, pair.a.memory));
    send_bytes(&pair.b, pair.client, 1, 0, 8);
    CHECK(received(pair.server) == receive && receive->CS.ImmediateData == 3);
    CHECK(!(receive->CS.Status & VIP_STATUS_IMMEDIATE));
    sent(pair.client);
    close_pair(&pair);
}

/* Data is gathered from many segments and scattered over others. */
static void segments(void)
{
    struct pair pair;
    open_pair(&pair, VIP_SERVICE_RELIABLE_DELIVERY);
    VIP_DESCRIPTOR *receive = descriptor(&pair.a, 0), *send = descriptor(&pair.b, 0);
    receive->CS.SegCount = 7;
    for (int k = 0; k < 7; k++) {
        receive->DS[k].Local.Data.Address = data(&pair.a, 1000 * k);
        receive->DS[k].Local.Handle = pair.a.memory;
        receive->DS[k].Local.Length = k == 3 ? 0 : 50;
    }
    send->CS.SegCount = 252;
    send->CS.Length = 252;
    for (int k = 0; k < 252; k++) {
        *data(&pair.b, 10 * k) = k;
        send->DS[k].Local.Data.Address = data(&pair.b, 10 * k);
        send->DS[k].Local.Handle = pair.b.memory;
        send->DS[k].Local.Length = 1;
    }
    OK(VipPostRecv(pair.server, receive, pair.a.memory));
    OK(VipPostSend(pair.client, send, pair.b.memory));
    CHECK(received(pair.server) == receive && receive->CS.Length == 252);
    for (int k = 0; k < 252; k++) {
        int segment = k / 50 >= 3 ? k / 50 + 1 : k / 50;
        CHECK((unsigned char)data(&pair.a, 1000 * segment)[k % 50] == k);
    }
    sent(pair.client);
    /* The longest transfer. */
    memset(data(&pair.b, 0), 42, DATA);
    receive_bytes(&pair.a, pair.server, 100, 0, DATA);
    send_bytes(&pair.b, pair.client, 100, 0, DATA);
    CHECK(received(pair.server)->CS.Length == DATA && data(&pair.a, 0)[DATA - 1] == 42);
    sent(pair.client);
    close_pair(&pair);
}

/* A message that is longer than its receive: unreliable service goes on, reliable service ends the connection. */
static void length(void)
{
    for (int level = 0; level < 3; level++) {
        struct pair pair;
        open_pair(&pair, LEVELS[level]);
        receive_bytes(&pair.a, pair.server, 0, 0, 100);
        receive_bytes(&pair.a, pair.server, 1, 200, 100);
        send_bytes(&pair.b, pair.client, 0, 0, 101);
        CHECK(failed_receive(pair.server, VIP_STATUS_LENGTH_ERROR)->CS.Length == 0);
        if (level == 0) {
            sent(pair.client);
            send_bytes(&pair.b, pair.client, 1, 0, 100);
            CHECK(sent(pair.client) && received(pair.server)->CS.Length == 100);
        } else {
            if (level == 1)
                sent(pair.client);
            else
                failed_send(pair.client, VIP_STATUS_REMOTE_DESC_ERROR);
            becomes(pair.server, VIP_STATE_ERROR);
            becomes(pair.client, VIP_STATE_ERROR);
            failed_receive(pair.server, VIP_STATUS_DESC_FLUSHED_ERROR);
        }
        close_pair(&pair);
    }
}

/* Descriptors that make no sense, in each way. */
static void wrong(void)
{
    for (int level = 0; level < 3; level++) {
        for (int kind = 0; kind < 6; kind++) {
            struct pair pair;
            open_pair(&pair, LEVELS[level]);
            VIP_DESCRIPTOR *send = one(&pair.b, 0, data(&pair.b, 0), 10);
            VIP_UINT32 expected = VIP_STATUS_FORMAT_ERROR;
            VIP_PROTECTION_HANDLE other_tag = NULL;
            VIP_MEM_HANDLE other = 0;
            switch (kind) {
            case 0:
                send->CS.Control = 0x10;
                break;
            case 1:
                send->CS.Control = VIP_CONTROL_OP_RESERVED;
                break;
            case 2:
                send->CS.Length = 11;
                expected = VIP_STATUS_LENGTH_ERROR;
                break;
            case 3:
                send->DS[0].Local.Handle = 12345;
                expected = VIP_STATUS_PROTECTION_ERROR;
                break;
            case 4: /* beyond the end of the region */
                send->DS[0].Local.Data.Address = pair.b.area + AREA - 9;
                expected = VIP_STATUS_PROTECTION_ERROR;
                break;
            default: { /* memory of another tag */
                OK(VipCreatePtag(pair.b.handle, &other_tag));
                VIP_MEM_ATTRIBUTES attributes = {other_tag, VIP_FALSE, VIP_FALSE};
                OK(VipRegisterMem(pair.b.handle, data(&pair.b, 0), 10, &attributes, &other));
                send->DS[0].Local.Handle = other;
                expected = VIP_STATUS_PROTECTION_ERROR;
            }
            }
            OK(VipPostSend(pair.client, send, pair.b.memory));
            CHECK(failed_send(pair.client, expected) == send);
            if (level == 0)
                works(&pair);
            else {
                becomes(pair.client, VIP_STATE_ERROR);
                becomes(pair.server, VIP_STATE_ERROR);
            }
            if (kind == 5) {
                IS(VipDestroyPtag(pair.b.handle, other_tag), VIP_ERROR_RESOURCE);
                OK(VipDeregisterMem(pair.b.handle, data(&pair.b, 0), other));
                OK(VipDestroyPtag(pair.b.handle, other_tag));
            }
            close_pair(&pair);
        }
    }
}

/* A receive that makes no sense, and memory that is deregistered while a receive waits. */
static void wrong_receives(void)
{
    for (int level = 0; level < 3; level++) {
        struct pair pair;
        open_pair(&pair, LEVELS[level]);
        VIP_DESCRIPTOR *receive = one(&pair.a, 0, data(&pair.a, 0), 10);
        receive->CS.Control = VIP_CONTROL_OP_RDMAREAD;
        OK(VipPostRecv(pair.server, receive, pair.a.memory));
        failed_receive(pair.server, VIP_STATUS_FORMAT_ERROR);
        if (level > 0)
            becomes(pair.client, VIP_STATE_ERROR);
        else {
            works(&pair);
            VIP_MEM_HANDLE other;
            VIP_MEM_ATTRIBUTES attributes = {pair.a.tag, VIP_FALSE, VIP_FALSE};
            OK(VipRegisterMem(pair.a.handle, data(&pair.a, 64), 10, &attributes, &other));
            receive = one(&pair.a, 0, data(&pair.a, 64), 10);
            receive->DS[0].Local.Handle = other;
            OK(VipPostRecv(pair.server, receive, pair.a.memory));
            OK(VipDeregisterMem(pair.a.handle, data(&pair.a, 64), other));
            memset(data(&pair.b, 0), 9, 10);
            send_bytes(&pair.b, pair.client, 0, 0, 10);
            sent(pair.client);
            failed_receive(pair.server, VIP_STATUS_PROTECTION_ERROR);
            CHECK(*data(&pair.a, 64) == 0);
            works(&pair);
        }
        close_pair(&pair);
    }
}

/* What is no descriptor at all is refused when it is posted. */
static void no_descriptors(void)
{
    struct pair pair;
    open_pair(&pair, VIP_SERVICE_RELIABLE_DELIVERY);
    VIP_DESCRIPTOR *send = one(&pair.b, 0, data(&pair.b, 0), 10);
    IS(VipPostSend(pair.client, NULL, pair.b.memory), VIP_INVALID_PARAMETER);
    IS(VipPostSend(pair.client, (VIP_DESCRIPTOR *)((char *)send + 32), pair.b.memory), VIP_INVALID_PARAMETER);
    IS(VipPostSend(pair.client, send, 999), VIP_INVALID_PARAMETER);
    static VIP_DESCRIPTOR elsewhere __attribute__((aligned(64)));
    IS(VipPostSend(pair.client, &elsewhere, pair.b.memory), VIP_INVALID_PARAMETER);
    IS(VipPostSend(pair.b.handle, send, pair.b.memory), VIP_INVALID_PARAMETER);
    /* A descriptor whose segments reach beyond the end of its region. */
    VIP_DESCRIPTOR *last = (VIP_DESCRIPTOR *)(pair.b.area + AREA - 64);
    last->CS.SegCount = 3;
    IS(VipPostRecv(pair.client, last, pair.b.memory), VIP_INVALID_PARAMETER);
    works(&pair);
    /* A queue has an end. */
    int posted = 0;
    while (VipPostRecv(pair.server, one(&pair.a, posted, data(&pair.a, 0), 1), pair.a.memory) == VIP_SUCCESS)
        posted++;
    CHECK(posted == (int)pair.a.attributes.MaxDescriptorsPerQueue);
    IS(VipPostRecv(pair.server, one(&pair.a, posted, data(&pair.a, 0), 1), pair.a.memory), VIP_ERROR_RESOURCE);
    close_pair(&pair);
}

/* CLAN's rule: sends wait for receives, at every reliability level, and nothing is lost or broken. */
static void flow_control(void)
{
    for (int level = 0; level < 3; level++) {
        struct pair pair;
        VIP_DESCRIPTOR *done;
        open_pair(&pair, LEVELS[level]);
        for (int k = 0; k < 50; k++) {
            memset(data(&pair.b, 100 * k), k + 1, 100);
            send_bytes(&pair.b, pair.client, k, 100 * k, 100);
        }
        IS(VipSendWait(pair.client, 50, &done), VIP_TIMEOUT);
        CHECK(state_of(pair.client) == VIP_STATE_CONNECTED && state_of(pair.server) == VIP_STATE_CONNECTED);
        for (int k = 0; k < 50; k++) {
            VIP_DESCRIPTOR *receive = receive_bytes(&pair.a, pair.server, k, 100 * k, 100);
            CHECK(received(pair.server) == receive && receive->CS.Length == 100);
            CHECK(data(&pair.a, 100 * k)[99] == k + 1);
            CHECK(sent(pair.client)->CS.Length == 100);
        }
        IS(VipSendDone(pair.client, &done), VIP_NOT_DONE);
        /* The other direction does not wait for this one. */
        send_bytes(&pair.b, pair.client, 60, 0, 1);
        receive_bytes(&pair.b, pair.client, 61, 0, 1);
        send_bytes(&pair.a, pair.server, 61, 0, 1);
        received(pair.client);
        IS(VipSendDone(pair.client, &done), VIP_NOT_DONE);
        CHECK(end_vi(pair.client) == 1);
        end_vi(pair.server);
        close_nic(&pair.b);
        close_nic(&pair.a);
    }
}

/* RDMA writes and reads need nothing of the program at the other end. */
static void remote_memory(void)
{
    for (int level = 1; level < 3; level++) {
        struct pair pair;
        open_pair(&pair, LEVELS[level]);
        VIP_UINT64 remote = (VIP_UINT64)(uintptr_t)data(&pair.a, 0);
        memset(data(&pair.b, 0), 7, DATA);
        VIP_DESCRIPTOR *write =
            rdma(&pair.b, 0, VIP_CONTROL_OP_RDMAWRITE, data(&pair.b, 0), DATA, remote, pair.a.memory);
        OK(VipPostSend(pair.client, write, pair.b.memory));
        VIP_DESCRIPTOR *read =
            rdma(&pair.b, 1, VIP_CONTROL_OP_RDMAREAD, data(&pair.b, DATA), DATA, remote, pair.a.memory);
        OK(VipPostSend(pair.client, read, pair.b.memory));
        CHECK(sent(pair.client) == write && write->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE));
        CHECK(write->CS.Length == DATA);
        CHECK(sent(pair.client) == read && read->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_READ));
        CHECK(read->CS.Length == DATA && memcmp(data(&pair.b, 0), data(&pair.b, DATA), DATA) == 0);
        CHECK(data(&pair.a, 0)[0] == 7 && data(&pair.a, DATA - 1)[0] == 7);

        /* With immediate data a write takes a receive. */
        VIP_DESCRIPTOR *receive = receive_bytes(&pair.a, pair.server, 0, 2 * DATA, 4);
        write = rdma(&pair.b, 2, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, data(&pair.b, 0), 100, remote + 3,
                     pair.a.memory);
        write->CS.ImmediateData = 11;
        OK(VipPostSend(pair.client, write, pair.b.memory));
        CHECK(received(pair.server) == receive && receive->CS.ImmediateData == 11 && receive->CS.Length == 100);
        CHECK(receive->CS.Status ==
              (VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE));
        CHECK(sent(pair.client) == write);

        /* Done in order: a send behind a read, with a fence and without. */
        for (int fence = 0; fence < 2; fence++) {
            receive_bytes(&pair.a, pair.server, 3, 0, 10);
            read = rdma(&pair.b, 3, VIP_CONTROL_OP_RDMAREAD, data(&pair.b, 0), DATA, remote, pair.a.memory);
            OK(VipPostSend(pair.client, read, pair.b.memory));
            VIP_DESCRIPTOR *send = one(&pair.b, 4, data(&pair.b, 0), 10);
            send->CS.Control = fence ? VIP_CONTROL_QFENCE : 0;
            OK(VipPostSend(pair.client, send, pair.b.memory));
            CHECK(sent(pair.client) == read && sent(pair.client) == send);
            received(pair.server);
        }
        close_pair(&pair);
    }
}

/* RDMA to memory that may not be written or read. */
static void remote_protection(void)
{
    for (int level = 0; level < 3; level++) {
        for (int kind = 0; kind < 5; kind++) {
            int reads = kind == 4;
            struct pair pair;
            if (reads && level == 0)
                continue;
            open_pair(&pair, LEVELS[level]);
            VIP_MEM_ATTRIBUTES attributes = {pair.a.tag, !reads ? kind != 0 : VIP_TRUE, !reads};
            VIP_MEM_HANDLE registered, handle;
            OK(VipRegisterMem(pair.a.handle, data(&pair.a, 0), 100, &attributes, &registered));
            handle = registered;
            VIP_UINT64 remote = (VIP_UINT64)(uintptr_t)data(&pair.a, 0);
            VIP_UINT32 length = 100;
            if (kind == 1) /* no such region */
                handle += 77;
            if (kind == 2) /* beyond its end */
                remote += 1;
            if (kind == 3) /* an address that wraps around */
                remote = ~(VIP_UINT64)0 - 10;
            memset(data(&pair.b, 0), 7, 100);
            memset(data(&pair.a, 0), 1, 101);
            VIP_DESCRIPTOR *post = rdma(&pair.b, 0, reads ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE,
                                        data(&pair.b, 0), length, remote, handle);
            OK(VipPostSend(pair.client, post, pair.b.memory));
            if (level == 0) {
                /* The write is dropped, and nobody hears of it at this end. */
                CHECK(sent(pair.client) == post);
                works(&pair);
            } else {
                if (reads || level == 2)
                    failed_send(pair.client, VIP_STATUS_RDMA_PROT_ERROR |
                                                 (reads ? VIP_STATUS_OP_RDMA_READ : VIP_STATUS_OP_RDMA_WRITE));
                becomes(pair.client, VIP_STATE_ERROR);
                becomes(pair.server, VIP_STATE_ERROR);
            }
            for (int k = 0; k < 101; k++)
                CHECK(data(&pair.a, k)[0] == 1);
            OK(VipDeregisterMem(pair.a.handle, data(&pair.a, 0), registered));
            close_pair(&pair);
        }
    }
}

/* RDMA that the VI at the other end does not allow. */
static void remote_disabled(void)
{
    struct pair pair;
    open_nic(&pair.a);
    open_nic(&pair.b);
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_RECEPTION, 1 << 16, NULL, pair.a.tag, VIP_FALSE, VIP_FALSE};
    OK(VipCreateVi(pair.a.handle, &attributes, NULL, NULL, &pair.server));
    pair.client = new_vi(&pair.b, VIP_SERVICE_RELIABLE_RECEPTION, NULL, NULL);
    join(&pair.a, pair.server, &pair.b, pair.client);
    VIP_UINT64 remote = (VIP_UINT64)(uintptr_t)data(&pair.a, 0);
    OK(VipPostSend(pair.client,
                   rdma(&pair.b, 0, VIP_CONTROL_OP_RDMAWRITE, data(&pair.b, 0), 10, remote, pair.a.memory),
                   pair.b.memory));
    failed_send(pair.client, VIP_STATUS_RDMA_PROT_ERROR | VIP_STATUS_OP_RDMA_WRITE);
    becomes(pair.server, VIP_STATE_ERROR);
    close_pair(&pair);
}

struct talker {
    struct nic *nic;
    VIP_VI_HANDLE vi;
    int first, begins;
};

enum { ROUNDS = 200 };

/* Sends and receives in turn. Both descriptors of a round are its own. */
static void *talk(void *argument)
{
    struct talker *of = argument;
    for (int round = 0; round < ROUNDS; round++) {
        int number = of->first + 2 * (round % 2), offset = 64 * number;
        VIP_DESCRIPTOR *receive = receive_bytes(of->nic, of->vi, number, offset, 4);
        if (!of->begins)
            CHECK(received(of->vi) == receive && memcmp(data(of->nic, offset), &round, 4) == 0);
        memcpy(data(of->nic, offset + 32), &round, 4);
        VIP_DESCRIPTOR *send = send_bytes(of->nic, of->vi, number + 1, offset + 32, 4);
        CHECK(sent(of->vi) == send);
        if (of->begins)
            CHECK(received(of->vi) == receive && memcmp(data(of->nic, offset), &round, 4) == 0);
    }
    return NULL;
}

/* Many threads wait at the same two NICs, each for a VI of its own. */
static void threads(void)
{
    enum { PAIRS = 4 };
    struct nic a, b;
    struct talker talkers[2 * PAIRS];
    pthread_t handles[2 * PAIRS];
    open_nic(&a);
    open_nic(&b);
    for (int k = 0; k < PAIRS; k++) {
        VIP_VI_HANDLE server = new_vi(&a, LEVELS[k % 3], NULL, NULL), client = new_vi(&b, LEVELS[k % 3], NULL, NULL);
        join(&a, server, &b, client);
        talkers[2 * k] = (struct talker){&a, server, 8 * k, 0};
        talkers[2 * k + 1] = (struct talker){&b, client, 8 * k, 1};
    }
    for (int k = 0; k < 2 * PAIRS; k++)
        CHECK(pthread_create(&handles[k], NULL, talk, &talkers[k]) == 0);
    for (int k = 0; k < 2 * PAIRS; k++)
        CHECK(pthread_join(handles[k], NULL) == 0);
    for (int k = 0; k < 2 * PAIRS; k++)
        end_vi(talkers[k].vi);
    close_nic(&b);
    close_nic(&a);
}

static const struct test TESTS[] = {
    {"order", order},
    {"threads", threads},
    {"immediate", immediate},
    {"segments", segments},
    {"length", length},
    {"wrong", wrong},
    {"wrong_receives", wrong_receives},
    {"no_descriptors", no_descriptors},
    {"flow_control", flow_control},
    {"remote_memory", remote_memory},
    {"remote_protection", remote_protection},
    {"remote_disabled", remote_disabled},
};

int main(int argc, char **argv)
{
    return run_all(argc, argv, TESTS, sizeof TESTS / sizeof *TESTS);
}
