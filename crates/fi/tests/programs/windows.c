/* One-sided communication of MPI with any number of ranks: put, get, accumulate, fetch-and-op, with fences and with locks.
 * With the argument "create", windows are memory of the program. Others Open MPI shares itself between the ranks of a host.
 * No compare-and-swap: Open MPI 4.1 crashes in it, with libfabric's provider "sockets" as well. Prints "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 100000, ROUNDS = 50 };

static int rank, size, creates;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Makes a window of so many words, which are zero. */
static void open_window(long count, long **memory, MPI_Win *window)
{
    size_t bytes = (size_t)count * sizeof **memory;
    if (creates) {
        *memory = calloc((size_t)count, sizeof **memory);
        MPI_Win_create(*memory, (MPI_Aint)bytes, sizeof **memory, MPI_INFO_NULL, MPI_COMM_WORLD, window);
        return;
    }
    MPI_Win_allocate((MPI_Aint)bytes, sizeof **memory, MPI_INFO_NULL, MPI_COMM_WORLD, memory, window);
    for (long at = 0; at < count; at++)
        (*memory)[at] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void close_window(long *memory, MPI_Win *window)
{
    MPI_Win_free(window);
    if (creates)
        free(memory);
}

/* Each rank puts its part to the next one, and gets that of the one after it. */
static void fences(void)
{
    long *memory, *out = calloc(MANY, sizeof *out), *in = calloc(MANY, sizeof *in);
    MPI_Win window;
    open_window(MANY, &memory, &window);
    int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    for (int count = 1; count <= MANY; count *= 10) {
        for (int at = 0; at < count; at++)
            out[at] = rank * 1000000L + count + at;
        MPI_Win_fence(0, window);
        MPI_Put(out, count, MPI_LONG, next, 0, count, MPI_LONG, window);
        MPI_Win_fence(0, window);
        for (int at = 0; at < count; at++)
            check(memory[at] == before * 1000000L + count + at, "put");
        MPI_Win_fence(0, window);
        MPI_Get(in, count, MPI_LONG, next, 0, count, MPI_LONG, window);
        MPI_Win_fence(0, window);
        for (int at = 0; at < count; at++)
            check(in[at] == rank * 1000000L + count + at, "get");
    }
    close_window(memory, &window);
    free(out);
    free(in);
}

/* All ranks change the words of rank 0. */
static void locks(void)
{
    long *memory, one = 1, old, sum = 0, mine = rank + 1;
    MPI_Win window;
    open_window(3, &memory, &window);
    for (int k = 0; k < ROUNDS; k++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Accumulate(&mine, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_unlock(0, window);
        check(old >= 0 && old < ROUNDS * size, "what was there before");
        sum += old;
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&old, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
    if (old == 0)
        MPI_Put(&mine, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    int won = old == 0, winners;
    MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(winners == 1, "one rank alone finds the zero");
    long all;
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    long turns = (long)ROUNDS * size;
    check(all == turns * (turns - 1) / 2, "each number was given once");
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&sum, 1, MPI_LONG, 0, 1, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    check(sum == (long)ROUNDS * size * (size + 1) / 2, "the sum");
    close_window(memory, &window);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    creates = argc > 1 && !strcmp(argv[1], "create");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    fences();
    locks();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
