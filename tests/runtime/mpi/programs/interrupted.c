/* Counts system calls that a signal interrupted, with work between them. */
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    int interrupted = 0, all = 0, rank;
    double sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 60; i++) {
        struct timespec pause = {0, 4000000}, left;
        for (int k = 1; k < 1000000; k++) {
            sum += 1.0 / k;
        }
        interrupted += nanosleep(&pause, &left) != 0;
        interrupted += poll(NULL, 0, 4) != 0;
        interrupted += clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &left) != 0;
    }
    MPI_Reduce(&interrupted, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("interrupted %d %g\n", all, sum);
    }
    MPI_Finalize();
    return 0;
}
