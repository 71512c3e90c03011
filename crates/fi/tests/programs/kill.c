/* Broadcasts without end, short and long ones, until rank 2 kills itself. The others are ended by mpirun. */
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

enum { LONG = 6000000, BEFORE = 40 };

static char bytes[LONG];

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0;; k++) {
        if (rank == 2 && k == BEFORE)
            kill(getpid(), SIGKILL);
        MPI_Bcast(bytes, k % 2 ? 100 : LONG, MPI_BYTE, k % 4, MPI_COMM_WORLD);
    }
}
