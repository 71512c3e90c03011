/* Round trips between two processes, by length: with send and receive, and with RDMA writes, polling and blocking. Prints
 * what, the bytes, and the median time there and back in nanoseconds, a line each. It is what the figures in
 * docs/via.md were measured with. Compiled with -DQUEUE and -lbarewire, it measures the message queue under it.
 *
 *     ping NAME
 */
#include <stdint.h>
#include <time.h>

#include "common.h"

enum { TIMES_MAX = 3000 };

static const int lengths[] = {8, 1024, 8192, 65536};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* One side of a measurement: `there` sends, `here` receives, so many bytes. */
static void measure(const char *what, int calls, int length, void *side, void (*there)(void *, int),
                    void (*here)(void *, int))
{
    static double times[TIMES_MAX];
    int count = length > 8192 ? TIMES_MAX / 3 : TIMES_MAX;
    for (int at = -count / 10; at < count; at++) {
        double began = now_ns();
        if (calls)
            there(side, length);
        here(side, length);
        if (!calls)
            there(side, length);
        if (at >= 0)
            times[at] = now_ns() - began;
    }
    if (calls) {
        qsort(times, (size_t)count, sizeof *times, by_time);
        printf("%s %d %.0f\n", what, length, times[count / 2]);
        fflush(stdout);
    }
}

#ifdef QUEUE

#include <barewire.h>

struct side {
    bw_connection connection;
    char *bytes;
    int blocks;
};

static void queue_there(void *of, int length)
{
    struct side *side = of;
    CHECK(bw_connection_send(side->connection, side->bytes, (size_t)length, BW_FOREVER) >= 0);
}

static void queue_here(void *of, int length)
{
    struct side *side = of;
    int64_t got;
    do
        got = bw_connection_recv(side->connection, side->bytes, DATA, side->blocks ? BW_FOREVER : BW_NO_WAIT);
    while (got == BW_E_WOULD_BLOCK || got == BW_E_TIMEOUT);
    CHECK(got == length);
}

static void run(const char *name, int calls)
{
    struct side side = {.bytes = calloc(1, DATA)};
    bw_node_config config = {.struct_bytes = sizeof config, .ring_bytes = 256 << 10};
    bw_node node;
    CHECK(bw_node_new(&config, &node) >= 0);
    if (calls) {
        CHECK(bw_node_connect(node, name, NULL, &side.connection) >= 0);
    } else {
        bw_listener listener;
        bw_request request;
        CHECK(bw_node_listen(node, name, NULL, &listener) >= 0);
        CHECK(bw_node_next_request(node, BW_FOREVER, &request) >= 0);
        CHECK(bw_request_accept(request, 0, &side.connection) >= 0);
    }
    for (side.blocks = 0; side.blocks < 2; side.blocks++)
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++)
            measure(side.blocks ? "queue, blocking" : "queue, polling", calls, lengths[at], &side, queue_there, queue_here);
    CHECK(bw_node_close(node) >= 0);
}

#else

struct side {
    struct nic nic;
    VIP_VI_HANDLE vi;
    int calls, blocks;
    /* Where the other end's area is, and its handle. */
    VIP_UINT64 remote;
    VIP_MEM_HANDLE handle;
    unsigned char round;
};

static void reap_send(struct side *side)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN code;
    do
        code = side->blocks ? VipSendWait(side->vi, LONG, &done) : VipSendDone(side->vi, &done);
    while (code == VIP_NOT_DONE);
    CHECK(code == VIP_SUCCESS);
}

static void post_receive(struct side *side, int number)
{
    OK(VipPostRecv(side->vi, one(&side->nic, number, data(&side->nic, 0), DATA), side->nic.memory));
}

static void send_there(void *of, int length)
{
    struct side *side = of;
    OK(VipPostSend(side->vi, one(&side->nic, 10, data(&side->nic, DATA), (VIP_UINT32)length), side->nic.memory));
    reap_send(side);
}

static void receive_here(void *of, int length)
{
    struct side *side = of;
    VIP_DESCRIPTOR *done;
    VIP_RETURN code;
    do
        code = side->blocks ? VipRecvWait(side->vi, LONG, &done) : VipRecvDone(side->vi, &done);
    while (code == VIP_NOT_DONE);
    CHECK(code == VIP_SUCCESS && (done->CS.Length == (VIP_UINT32)length || done->CS.Status & VIP_STATUS_IMMEDIATE));
    post_receive(side, (int)(((char *)done - side->nic.area) / 64));
}

/* What the last byte of the next write is: never 0, which is there before the first one. */
static unsigned char next_round(const struct side *side)
{
    return side->round % 255 + 1;
}

/* Polling, the last byte says that it has come; blocking, immediate data takes a receive. */
static void write_there(void *of, int length)
{
    struct side *side = of;
    char *bytes = data(&side->nic, DATA);
    if (side->calls)
        side->round = next_round(side);
    bytes[length - 1] = (char)side->round;
    VIP_DESCRIPTOR *write = rdma(&side->nic, 10, VIP_CONTROL_OP_RDMAWRITE, bytes, (VIP_UINT32)length,
                                 side->remote + AREA / 2, side->handle);
    if (side->blocks)
        write->CS.Control |= VIP_CONTROL_IMMEDIATE;
    OK(VipPostSend(side->vi, write, side->nic.memory));
    reap_send(side);
}

static void written_here(void *of, int length)
{
    struct side *side = of;
    if (side->blocks) {
        receive_here(of, length);
        return;
    }
    volatile unsigned char *last = (volatile unsigned char *)data(&side->nic, length - 1);
    VIP_DESCRIPTOR *done;
    /* A call makes progress. Without one, the library's own thread would do it, which has to wake up first. */
    unsigned char expected = side->calls ? side->round : next_round(side);
    while (*last != expected)
        CHECK(VipRecvDone(side->vi, &done) == VIP_NOT_DONE);
    side->round = expected;
}

/* Each side tells the other where its area is. */
static void tell(struct side *side)
{
    VIP_DESCRIPTOR *done;
    char *bytes = data(&side->nic, DATA);
    VIP_UINT64 own = (VIP_UINT64)(uintptr_t)side->nic.area;
    memcpy(bytes, &own, sizeof own);
    memcpy(bytes + sizeof own, &side->nic.memory, sizeof side->nic.memory);
    side->blocks = 1;
    send_there(side, sizeof own + sizeof side->nic.memory);
    OK(VipRecvWait(side->vi, LONG, &done));
    bytes = done->DS[0].Local.Data.Address;
    memcpy(&side->remote, bytes, sizeof side->remote);
    memcpy(&side->handle, bytes + sizeof side->remote, sizeof side->handle);
    memset(bytes, 0, sizeof own + sizeof side->nic.memory);
    post_receive(side, (int)(((char *)done - side->nic.area) / 64));
}

static void run(const char *name, int calls)
{
    static const char *const names[][2] = {{"send, polling", "write, polling"}, {"send, blocking", "write, blocking"}};
    struct side side = {.calls = calls};
    open_nic(&side.nic);
    side.vi = new_vi(&side.nic, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    post_receive(&side, 0);
    post_receive(&side, 1);
    union address own = at(&side.nic, "ping"), server = at(&side.nic, name);
    if (calls)
        call(side.vi, &own, &server);
    else
        serve(&side.nic, side.vi, &server);
    tell(&side);
    for (int blocks = 0; blocks < 2; blocks++)
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
            side.blocks = blocks;
            measure(names[blocks][0], calls, lengths[at], &side, send_there, receive_here);
            measure(names[blocks][1], calls, lengths[at], &side, write_there, written_here);
        }
    exit(0);
}

#endif

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *name = discriminator(argv[1]);
    pid_t child = fork();
    CHECK(child >= 0);
    run(name, child != 0);
    return 0;
}
