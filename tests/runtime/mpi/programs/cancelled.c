/* Receives from a named rank that are cancelled before, between and behind others of their channel. Every receive that
 * gets a message has room for just that one. */
#include <mpi.h>
#include <stdlib.h>

static char buffer[64];
static int rank;

static MPI_Request receive(int bytes, int tag)
{
    MPI_Request request;
    MPI_Irecv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
    return request;
}

static void withdraw(MPI_Request *request, int round)
{
    int done = 0;
    MPI_Cancel(request);
    if (round % 4 == 0) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    } else if (round % 4 == 1) {
        MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
    } else if (round % 4 == 2) {
        while (!done) {
            MPI_Test(request, &done, MPI_STATUS_IGNORE);
        }
    } else {
        MPI_Request_free(request);
    }
}

/* Three messages, for the first, third and fifth of six receives. */
static void exchange(int round, int tag, int first)
{
    MPI_Request pending[6];
    if (rank == 1) {
        for (int i = 0; i < 5; i++) {
            pending[i] = receive(first + i / 2, tag);
        }
        withdraw(&pending[3], round);
        withdraw(&pending[1], round + 1);
        pending[5] = receive(9, tag);
        withdraw(&pending[5], round + 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        if (rank == 0) {
            MPI_Send(buffer, first + i, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Wait(&pending[2 * i], MPI_STATUS_IGNORE);
        }
    }
}

static void persistent(int tag)
{
    MPI_Request request;
    if (rank == 1) {
        MPI_Recv_init(buffer, 7, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(buffer, 7, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 8;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < rounds; round++) {
        exchange(round, round % 3, 1 + round % 2 * 3);
        persistent(5);
    }
    MPI_Finalize();
    return 0;
}
