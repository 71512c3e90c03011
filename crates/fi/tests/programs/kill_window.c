/* Ranks put into the window of rank 1, get from it and add to it, without end, until rank 1 is killed in the middle. The
 * window is memory of the program: that of MPI_Win_allocate Open MPI shares itself between the ranks of a host, and then it
 * needs no network. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONGS = 4096, ROUNDS = 300 };

int main(int argc, char **argv)
{
    int rank, error = MPI_SUCCESS;
    long *base = calloc(LONGS, sizeof *base), *own = calloc(LONGS, sizeof *own), one = 1, before;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(base, LONGS * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    for (int round = 0; !error && (rank != 1 || round < ROUNDS); round++) {
        error = MPI_Put(own, LONGS, MPI_LONG, 1, 0, LONGS, MPI_LONG, window);
        error = error ? error : MPI_Get(own, 1, MPI_LONG, 1, 0, 1, MPI_LONG, window);
        error = error ? error : MPI_Fetch_and_op(&one, &before, MPI_LONG, 1, 1, MPI_SUM, window);
        error = error ? error : MPI_Win_flush(1, window);
    }
    if (rank == 1)
        kill(getpid(), SIGKILL);
    return 7;
}
