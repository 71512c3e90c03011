/*
 * Open MPI's part in `barewire bench --rivals`: a ping-pong (`rtt`) or a one-way stream
 * (`stream`) between two ranks, both of which poll for as long as they wait.
 *
 *     openmpi-rival rtt|stream SIZE TURNS CLIENT SERVER
 *     openmpi-rival --version
 *
 * Rank 0 runs on processor CLIENT, rank 1 on SERVER; -1 for wherever the system puts it. Rank 0
 * prints `ns-per-operation X`.
 *
 * MPI copies each message from the sender's memory to the receiver's. How often, and who does
 * it, is a setting of `mpirun` (run.sh).
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    /* What the last byte of every message is: whoever receives another one has a fault. */
    LAST = 0x5A,
    /* Messages of a stream that are under way together, as in the OSU benchmarks. */
    WINDOW = 64,
};

struct task {
    int is_client, is_stream, size, turns, warm_up;
    /* One message to send, and room for as many as a window has. */
    char *message, *received;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void fail(const char *why)
{
    fprintf(stderr, "openmpi-rival: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *memory(size_t size)
{
    void *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!bytes)
        fail("no memory");
    memset(bytes, 0, size);
    return bytes;
}

/* Ties this process to a processor. */
static void pin(int cpu)
{
    cpu_set_t set;
    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("no such processor");
}

static int compare(const void *one, const void *other)
{
    int64_t difference = *(const int64_t *)one - *(const int64_t *)other;
    return (difference > 0) - (difference < 0);
}

static void check(const struct task *task, const char *message)
{
    if (message[task->size - 1] != LAST)
        fail("a message is not what was sent");
}

static void send_one(const struct task *task)
{
    MPI_Send(task->message, task->size, MPI_BYTE, task->is_client, 0, MPI_COMM_WORLD);
}

static void receive_one(const struct task *task)
{
    MPI_Recv(task->received, task->size, MPI_BYTE, task->is_client, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    check(task, task->received);
}

/* The median of all round trips; nothing at the server. */
static double round_trips(const struct task *task)
{
    int all = task->warm_up + task->turns;
    int64_t *times = memory(all * sizeof *times);
    int64_t before = now_ns();
    for (int i = 0; i < all; i++) {
        if (!task->is_client)
            receive_one(task);
        send_one(task);
        if (task->is_client) {
            int64_t now = now_ns();
            times[i] = now - before;
            before = now;
            receive_one(task);
        }
    }
    qsort(times + task->warm_up, task->turns, sizeof *times, compare);
    return times[task->warm_up + task->turns / 2];
}

/* Sends or receives so many windows of messages. */
static void windows(const struct task *task, int count)
{
    MPI_Request requests[WINDOW];
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < WINDOW; j++) {
            char *place = task->received + (size_t)j * task->size;
            if (task->is_client)
                MPI_Isend(task->message, task->size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[j]);
            else
                MPI_Irecv(place, task->size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[j]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int j = 0; j < WINDOW && !task->is_client; j++)
            check(task, task->received + (size_t)j * task->size);
    }
}

/* The receiver measures; then it sends back how long a message took. */
static double stream(const struct task *task)
{
    int count = task->turns / WINDOW + 1;
    double ns = 0;
    windows(task, task->warm_up / WINDOW + 1);
    int64_t begin = now_ns();
    windows(task, count);
    ns = (double)(now_ns() - begin) / ((double)count * WINDOW);
    if (task->is_client)
        MPI_Recv(&ns, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&ns, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    return ns;
}

static int print_version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    /* "Open MPI v4.1.4, package: ..." */
    const char *version = strstr(text, " v");
    if (!version)
        return 1;
    version += 2;
    printf("openmpi %.*s\n", (int)strcspn(version, ", "), version);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--version"))
        return print_version();
    if (argc != 6) {
        fprintf(stderr, "arguments: rtt|stream SIZE TURNS CLIENT SERVER\n");
        return 2;
    }
    /* Who kills mpirun shall not leave two programs behind that poll for ever. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct task task = {
        .is_client = rank && !strcmp(rank, "0"),
        .is_stream = !strcmp(argv[1], "stream"),
        .size = atoi(argv[2]),
        .turns = atoi(argv[3]),
    };
    /* Before MPI lays out its memory. */
    pin(atoi(argv[task.is_client ? 4 : 5]));
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || task.size < 1 || task.turns < 1)
        fail("two ranks, and sizes and turns of at least 1");
    task.warm_up = task.turns / 10 + 1;
    task.message = memory(task.size);
    task.message[task.size - 1] = LAST;
    task.received = memory((size_t)task.size * WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);
    double ns = task.is_stream ? stream(&task) : round_trips(&task);
    if (task.is_client)
        printf("ns-per-operation %f\n", ns);
    MPI_Finalize();
    return 0;
}
