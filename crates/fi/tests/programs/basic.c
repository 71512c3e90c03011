/* MPI's basic operations, with each result checked. Rank 0 prints "ok" at the end; what is wrong aborts. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The byte at `at` of a message of `len` bytes from `from`. */
static unsigned char byte_of(int from, int len, int at)
{
    return (unsigned char)(from * 31 + len * 7 + at * 13 + at / 251);
}

static void fill(unsigned char *buffer, int from, int len)
{
    for (int at = 0; at < len; at++)
        buffer[at] = byte_of(from, len, at);
}

static int is_filled(const unsigned char *buffer, int from, int len)
{
    for (int at = 0; at < len; at++)
        if (buffer[at] != byte_of(from, len, at))
            return 0;
    return 1;
}

/* Lengths around each border: of the lines, the copies, the pieces. */
static const int lengths[] = {0, 1, 8, 39, 40, 41, 64, 1000, 4079, 4080, 4081, 4096, 8191, 8192, 8193, 16384, 65536, 300001, 5000001};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 5000001 };

/* How many of these lengths are tried: the longest only among few. */
static int tried(void)
{
    return size <= 3 ? LENGTHS : LENGTHS - 1;
}

/* Every rank to every rank, itself too. */
static void pairs(void)
{
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
    for (int k = 0; k < tried(); k++)
        for (int step = 0; step < size; step++) {
            int to = (rank + step) % size, from = (rank - step + size) % size, count;
            MPI_Status status;
            fill(out, rank, lengths[k]);
            memset(in, 0, lengths[k]);
            MPI_Sendrecv(out, lengths[k], MPI_BYTE, to, 5, in, LONGEST, MPI_BYTE, from, 5, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            check(count == lengths[k] && status.MPI_SOURCE == from && status.MPI_TAG == 5, "status of a pair");
            check(is_filled(in, from, count), "bytes of a pair");
        }
    free(out);
    free(in);
}

/* Messages of one sender with one tag come in order, also if short and long ones alternate. */
static void order(void)
{
    enum { MANY = 200 };
    int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    MPI_Request requests[2 * MANY];
    int *out = calloc(MANY, 20000), *in = calloc(MANY, 20000);
    for (int k = 0; k < MANY; k++) {
        int ints = k % 3 == 0 ? 5000 : 1;
        out[k * 5000] = k;
        MPI_Isend(out + k * 5000, ints, MPI_INT, next, 9, MPI_COMM_WORLD, &requests[k]);
    }
    for (int k = 0; k < MANY; k++)
        MPI_Irecv(in + k * 5000, 5000, MPI_INT, k % 2 ? before : MPI_ANY_SOURCE, k % 5 ? 9 : MPI_ANY_TAG, MPI_COMM_WORLD,
                  &requests[MANY + k]);
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < MANY; k++)
        check(in[k * 5000] == k, "order");
    free(out);
    free(in);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Any source, any tag, and the choice by tag among messages that came before. */
static void choice(void)
{
    if (rank == 0) {
        int sum = 0, value;
        MPI_Status status;
        for (int k = 1; k < size; k++) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            check(value == status.MPI_SOURCE && status.MPI_TAG == 100 + value, "any source");
            sum += value;
        }
        check(sum == size * (size - 1) / 2, "all sources");
        MPI_Barrier(MPI_COMM_WORLD);
        for (int k = 1; k < size; k++)
            for (int tag = 2; tag >= 0; tag--) {
                MPI_Recv(&value, 1, MPI_INT, k, 200 + tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                check(value == tag, "choice by tag");
            }
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, 100 + rank, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int tag = 0; tag < 3; tag++)
            MPI_Send(&tag, 1, MPI_INT, 0, 200 + tag, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Probes, matched probes, synchronous sends, cancels. */
static void probes(void)
{
    int next = (rank + 1) % size, before = (rank - 1 + size) % size, flag, count;
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, &status);
    check(!flag, "a probe of nothing");
    for (int k = 0; k < tried(); k++) {
        fill(out, rank, lengths[k]);
        /* Open MPI 4.1 never ends a synchronous send that is received after a matched probe, with any provider. */
        if (k % 2)
            MPI_Issend(out, lengths[k], MPI_BYTE, next, 11, MPI_COMM_WORLD, &request);
        else
            MPI_Isend(out, lengths[k], MPI_BYTE, next, 11, MPI_COMM_WORLD, &request);
        if (k % 2) {
            MPI_Probe(before, 11, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            check(count == lengths[k], "length of a probe");
            MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Mprobe(MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &message, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            check(count == lengths[k], "length of a matched probe");
            MPI_Mrecv(in, count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
        check(is_filled(in, before, lengths[k]), "bytes after a probe");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Irecv(in, 1, MPI_BYTE, before, 78, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    check(flag, "a cancel");
    free(out);
    free(in);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A message that is longer than its buffer is an error, and those after it are not harmed. */
static void truncation(void)
{
    int next = (rank + 1) % size, before = (rank - 1 + size) % size, value;
    char *out = calloc(1, LONGEST), in[16];
    MPI_Request requests[2];
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    for (int len = 100; len <= LONGEST; len = len == 100 ? LONGEST : LONGEST + 1) {
        MPI_Isend(out, len, MPI_BYTE, next, 1, own, &requests[0]);
        MPI_Isend(&rank, 1, MPI_INT, next, 2, own, &requests[1]);
        int error = MPI_Recv(in, sizeof in, MPI_BYTE, before, 1, own, MPI_STATUS_IGNORE), class = 0;
        if (error != MPI_SUCCESS)
            MPI_Error_class(error, &class);
        check(class == MPI_ERR_TRUNCATE, "truncation is told");
        MPI_Recv(&value, 1, MPI_INT, before, 2, own, MPI_STATUS_IGNORE);
        check(value == before, "what comes after truncation");
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&own);
    free(out);
}

static void collectives(void)
{
    enum { MOST = 100000 };
    double *in = calloc(MOST, sizeof *in), *out = calloc(MOST, sizeof *out);
    for (int count = 1; count <= MOST; count = count * 10) {
        for (int at = 0; at < count; at++)
            in[at] = rank + at;
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int at = 0; at < count; at++)
            check(out[at] == size * (size - 1) / 2 + (double)size * at, "sum");
        for (int root = 0; root < size; root++) {
            if (rank == root)
                memcpy(out, in, count * sizeof *in);
            MPI_Bcast(out, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
            check(out[0] == root && out[count - 1] == root + count - 1, "broadcast");
        }
    }
    int each = MOST / size;
    for (int at = 0; at < each * size; at++)
        in[at] = rank * 1000.0 + at / each;
    MPI_Alltoall(in, each, MPI_DOUBLE, out, each, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int at = 0; at < each * size; at++)
        check(out[at] == at / each * 1000.0 + rank, "all to all");
    int total = 0, one = rank + 1, all[64];
    MPI_Scan(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(total == (rank + 1) * (rank + 2) / 2, "scan");
    MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int k = 0; k < size; k++)
        check(all[k] == k + 1, "all gather");
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_MAX, half);
    check(total == (rank % 2 == (size - 1) % 2 ? size : size - 1), "sum of a half");
    MPI_Comm_free(&half);
    free(in);
    free(out);
}

/* A column of a matrix: memory in many places. */
static void datatypes(void)
{
    enum { N = 300 };
    double *matrix = calloc(N * N, sizeof *matrix), *column = calloc(N, sizeof *column);
    int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    MPI_Datatype type;
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int row = 0; row < N; row++)
        matrix[row * N + 3] = rank * 1000 + row;
    MPI_Sendrecv(matrix + 3, 1, type, next, 1, column, N, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int row = 0; row < N; row++)
        check(column[row] == before * 1000 + row, "column");
    MPI_Type_free(&type);
    free(matrix);
    free(column);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pairs();
    order();
    choice();
    probes();
    truncation();
    collectives();
    datatypes();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
