/* Many calls of all kinds that are numbered, to peers, tags, communicators and datatypes that come and go. */
#include <mpi.h>
#include <stdlib.h>

enum { PEERS = 3, CHANNELS = 700 };

static double out[64], in[PEERS][64], sum[64];

static void exchange(MPI_Comm comm, int rank, int size, MPI_Datatype type, int round)
{
    MPI_Request requests[2 * PEERS];
    for (int i = 0; i < PEERS; i++) { /* one line, several peers and tags */
        MPI_Irecv(in[i], 1 + i, type, (rank + i) % size, i, comm, &requests[i]);
    }
    for (int i = 0; i < PEERS; i++) {
        MPI_Isend(out, 1 + i, type, (rank + (size - i % size)) % size, i, comm, &requests[PEERS + i]);
    }
    if (round % 3 == 0) {
        MPI_Waitall(2 * PEERS, requests, MPI_STATUSES_IGNORE);
    } else if (round % 3 == 1) {
        for (int i = 0; i < 2 * PEERS; i++) {
            MPI_Status status;
            MPI_Wait(&requests[i], &status);
        }
    } else {
        for (int i = 0; i < 2 * PEERS; i++) {
            for (int done = 0; !done;) {
                MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
            }
        }
    }
}

static void chain(MPI_Comm comm, int rank, int size, int round)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Status status;
    MPI_Sendrecv(out, 2, MPI_INT, right, 7, in[0], 2, MPI_INT, left, 7, comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 1, MPI_INT, rank ? MPI_PROC_NULL : right, 8, in[0], 1, MPI_INT, rank == 1 ? left : MPI_PROC_NULL, 8,
                 comm, MPI_STATUS_IGNORE);
    for (int i = 3 * round; i < 3 * round + 3; i++) { /* more channels than are at hand */
        if (rank == 0) {
            MPI_Send(out, 1, MPI_INT, right, 100 + i % CHANNELS, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(in[0], 1, MPI_INT, left, 100 + i % CHANNELS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 0) {
        MPI_Send(out, round % 5, MPI_DOUBLE, right, 9, comm);
    } else if (rank == 1) {
        if (round % 4 == 0) {
            MPI_Probe(left, 9, comm, &status);
        }
        MPI_Recv(in[0], 64, MPI_DOUBLE, round % 2 ? left : MPI_ANY_SOURCE, 9, comm, &status);
    }
}

int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type;
    MPI_Type_contiguous(2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int round = 0; round < rounds; round++) {
        if (round % 100 == 0) { /* handles are used again for others */
            MPI_Comm before = comm;
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            if (before != MPI_COMM_WORLD) {
                MPI_Comm_free(&before);
            }
            MPI_Type_free(&type);
            MPI_Type_contiguous(1 + round / 100 % 8, MPI_DOUBLE, &type);
            MPI_Type_commit(&type);
        }
        exchange(comm, rank, size, type, round);
        exchange(MPI_COMM_WORLD, rank, size, MPI_INT, round);
        chain(comm, rank, size, round);
        MPI_Bcast(out, 4, MPI_DOUBLE, round % size, comm);
        MPI_Reduce(out, sum, 3, MPI_DOUBLE, MPI_SUM, round % size, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
