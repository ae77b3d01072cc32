/* Ranks on two cores that compute for some milliseconds, and then wait for one message after the other. They tell the CPU
 * seconds of the first: "RANK SECONDS". */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>

#include "two_cores.h"

#define STEPS 150
#define MESSAGES 6

static volatile double sink = 1.0;

static void compute(int count)
{
    double x = sink;
    for (int i = 0; i < count; i++) {
        x = x * 0.9999999 + 1e-9;
    }
    sink = x;
}

int main(int argc, char **argv)
{
    int rank, size;
    double computing = 0;
    stay_on_two_cores();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < STEPS; step++) {
        MPI_Request requests[2][MESSAGES];
        double in[MESSAGES], out = rank, start = cpu_s();
        compute(600000 * (1 + rank % 3));
        computing += cpu_s() - start;
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Irecv(&in[i], 1, MPI_DOUBLE, (rank + 1 + i) % size, i, MPI_COMM_WORLD, &requests[0][i]);
        }
        for (int i = 0; i < MESSAGES; i++) { /* each after a little more work than the one before */
            compute(20000);
            MPI_Isend(&out, 1, MPI_DOUBLE, (rank + size * MESSAGES - 1 - i) % size, i, MPI_COMM_WORLD, &requests[1][i]);
        }
        MPI_Wait(&requests[0][0], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0][1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0][2], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0][3], MPI_STATUS_IGNORE);
        MPI_Waitall(2, &requests[0][4], MPI_STATUSES_IGNORE);
        MPI_Waitall(MESSAGES, requests[1], MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
    printf("%d %.6f\n", rank, computing);
    return 0;
}
