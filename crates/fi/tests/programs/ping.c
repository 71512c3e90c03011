/* Half round trips between two ranks, and how many messages of 8 bytes one of them sends in a second. No test: it is what
 * the figures in docs/mpi.md were measured with. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 20, WINDOW = 64, WINDOWS = 2000 };

static int rank;
static char *bytes;

static void round_trips(int len, int count)
{
    double begin = 0;
    for (int k = -count / 10; k < count; k++) {
        if (k == 0)
            begin = MPI_Wtime();
        if (rank == 0)
            MPI_Send(bytes, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(bytes, len, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(bytes, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%7d B: half round trip %.3f us\n", len, (MPI_Wtime() - begin) / count / 2 * 1e6);
}

static void rate(void)
{
    MPI_Request requests[WINDOW];
    double begin = 0;
    for (int k = -WINDOWS / 10; k < WINDOWS; k++) {
        if (k == 0)
            begin = MPI_Wtime();
        for (int at = 0; at < WINDOW; at++)
            if (rank == 0)
                MPI_Isend(bytes, 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[at]);
            else
                MPI_Irecv(bytes + 8 * at, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[at]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(bytes, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(bytes, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%.2f million messages a second\n", (double)WINDOW * WINDOWS / (MPI_Wtime() - begin) / 1e6);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {0, 8, 64, 4096, 65536, MOST};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bytes = calloc(1, MOST);
    for (unsigned k = 0; k < sizeof lengths / sizeof *lengths; k++)
        round_trips(lengths[k], lengths[k] < 65536 ? 20000 : lengths[k] < MOST ? 2000 : 200);
    rate();
    MPI_Finalize();
    return 0;
}
