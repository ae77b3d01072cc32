/* Messages in parts: two of the same tag that are started the other way round than the receiver does, beside a plain one
 * of that tag. The sender is late with the last part. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { PARTS = 4, ROUNDS = 6, TAG = 3 };

static double small[PARTS], large[2 * PARTS];

static void send(MPI_Request *requests, int round)
{
    int listed[2] = {1, 0};
    MPI_Start(&requests[1]);
    MPI_Start(&requests[0]);
    MPI_Pready_list(2, listed, requests[0]);
    MPI_Pready_range(0, PARTS - 1, requests[1]);
    MPI_Pready(3, requests[0]);
    MPI_Send(&round, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD);
    usleep(100000);
    MPI_Pready(2, requests[0]); /* late */
}

static void receive(MPI_Request *requests, int round)
{
    int there = 0;
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Recv(&round, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Parrived(requests[0], 2, &there);
}

int main(int argc, char **argv)
{
    MPI_Request requests[2];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Psend_init(small, PARTS, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Psend_init(large, PARTS, 2, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    } else {
        MPI_Precv_init(small, PARTS, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(large, PARTS, 2, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        (rank == 0 ? send : receive)(requests, round);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* for the late part */
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Finalize();
    return 0;
}
