/* Ranks that go through three functions between two calls, as long in each: "RANK BEGINS GOES_ON ENDS" in CPU seconds.
 *
 *     three_parts MILLISECONDS SECONDS: between two calls, and in all */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile double sink = 1.0;
static double took_s[3];

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#define PART(name, number)                                                                                             \
    __attribute__((noinline)) static void name(double seconds)                                                         \
    {                                                                                                                  \
        double start = cpu_s();                                                                                        \
        while (cpu_s() - start < seconds) {                                                                            \
            for (int i = 0; i < 20000; i++) {                                                                          \
                sink = sink * 0.9999999 + 1e-9;                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        took_s[number] += cpu_s() - start;                                                                             \
    }

PART(begins, 0)
PART(goes_on, 1)
PART(ends, 2)

int main(int argc, char **argv)
{
    int rank;
    double step_s = 1e-3 * atof(argv[1]), one = 1.0, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = (int)(atof(argv[2]) / step_s); step > 0; step--) {
        begins(step_s / 3.0);
        goes_on(step_s / 3.0);
        ends(step_s / 3.0);
        MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    printf("%d %f %f %f\n", rank, took_s[0], took_s[1], took_s[2]);
    MPI_Finalize();
    return 0;
}
