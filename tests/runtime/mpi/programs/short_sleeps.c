/* Sleeps for moments between calls: too short to be seen by the wall clock alone. Then works in a deep stack for a while,
 * having worked in a shallow one. Says how much of the first part it used a core for. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noinline)) static double work(double until)
{
    double sum = 0;
    while (MPI_Wtime() < until) {
        for (int i = 1; i < 20000; i++) {
            sum += 1.0 / i;
        }
    }
    return sum;
}

__attribute__((noinline)) static double deep(int depth, double until)
{
    volatile char room[500];
    memset((char *)room, depth, sizeof room);
    return depth ? deep(depth - 1, until) + room[3] : work(until);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    double before = cpu_seconds();
    for (int i = 0; i < 2000; i++) {
        const struct timespec moment = {0, 1000};
        MPI_Barrier(MPI_COMM_SELF);
        nanosleep(&moment, NULL);
    }
    printf("cpu seconds: %.6f\n", cpu_seconds() - before);
    MPI_Bcast(&argc, 1, MPI_INT, 0, MPI_COMM_SELF);
    double sum = work(MPI_Wtime() + 1.0);
    sum += deep(10, MPI_Wtime() + 0.5);
    MPI_Finalize();
    return sum < 0;
}
