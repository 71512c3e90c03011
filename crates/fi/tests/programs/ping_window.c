/* How long an access to the window of another rank takes that is flushed at once: put, get, fetch-and-op. Prints what, the
 * bytes, and the median time in nanoseconds, a line each. With the argument "allocate", the window is memory that Open MPI
 * makes; else it is the program's. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20, TIMES_MAX = 4000 };

enum kind { PUT, GET, ADD };

static const char *const names[] = {"put", "get", "fetch_and_op"};

static void access_once(enum kind kind, char *bytes, int len, MPI_Win window)
{
    static long one = 1, before;
    if (kind == PUT)
        MPI_Put(bytes, len, MPI_BYTE, 1, 0, len, MPI_BYTE, window);
    else if (kind == GET)
        MPI_Get(bytes, len, MPI_BYTE, 1, 0, len, MPI_BYTE, window);
    else
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 1, 0, MPI_SUM, window);
    MPI_Win_flush(1, window);
}

static int by_time(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static void measure(enum kind kind, char *bytes, int len, MPI_Win window)
{
    static double times[TIMES_MAX];
    int count = len > 65536 ? TIMES_MAX / 10 : TIMES_MAX;
    for (int at = -count / 10; at < count; at++) {
        double began = MPI_Wtime();
        access_once(kind, bytes, len, window);
        if (at >= 0)
            times[at] = MPI_Wtime() - began;
    }
    qsort(times, (size_t)count, sizeof *times, by_time);
    printf("%s %d %.0f\n", names[kind], len, times[count / 2] * 1e9);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {8, 4096, 65536, LONGEST};
    char *memory, *bytes = calloc(1, LONGEST);
    MPI_Win window;
    int rank, allocates = argc > 1 && !strcmp(argv[1], "allocate");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (allocates) {
        MPI_Win_allocate(LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    } else {
        memory = malloc(LONGEST);
        MPI_Win_create(memory, LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    memset(memory, 0, LONGEST);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    if (rank == 0) {
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++)
            measure(PUT, bytes, lengths[at], window);
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++)
            measure(GET, bytes, lengths[at], window);
        measure(ADD, bytes, 8, window);
    }
    /* The other rank makes progress in here. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
