/* Computes for so many CPU seconds and never rests. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static volatile double sink = 1.0;

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

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
    MPI_Init(&argc, &argv);
    for (double end = cpu_s() + atof(argv[1]); cpu_s() < end;) {
        compute(1000000);
    }
    MPI_Finalize();
    return 0;
}
