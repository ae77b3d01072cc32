/* In every step, each rank has a new thread compute and waits for it; that of rank 1 computes longer. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static double total;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *refine(void *seconds)
{
    double sum = 0, end = cpu_s() + *(const double *)seconds;
    while (cpu_s() < end) {
        for (int i = 1; i <= 20000; i++) { /* slow */
            sum += 1.0 / i / i; /* slow */
        }
    }
    total += sum;
    return NULL;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 120; step++) {
        pthread_t thread;
        double seconds = rank == 1 ? 0.012 : 0.001;
        pthread_create(&thread, NULL, refine, &seconds);
        pthread_join(thread, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (total == 42) {
        puts("");
    }
    MPI_Finalize();
    return 0;
}
