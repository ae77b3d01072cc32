/* Computes for some 4 ms and then sleeps for as long, over and over. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    double sum = 0, rested = 0, ran = 0;
    MPI_Init(&argc, &argv);
    for (int step = 0; step < 150; step++) {
        double begin = now(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 1; i < 1500000; i++) {
            sum += 1.0 / i; /* runs */
        }
        ran += now(CLOCK_THREAD_CPUTIME_ID) - begin;
        begin = now(CLOCK_MONOTONIC);
        nanosleep(&(struct timespec){0, 4000000}, NULL); /* rests */
        rested += now(CLOCK_MONOTONIC) - begin;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    printf("ran %f rested %f %g\n", ran, rested, sum);
    MPI_Finalize();
    return 0;
}
