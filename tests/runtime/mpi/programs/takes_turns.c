/* Ranks on two cores that compute in two functions between calls, and tell the CPU seconds in each: "RANK FIRST SECOND". */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define STEPS 240

static volatile double sink = 1.0;

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

__attribute__((noinline)) static void first(int count)
{
    double x = sink;
    for (int i = 0; i < count; i++) {
        x = x * 0.9999999 + 1e-9;
    }
    sink = x;
}

__attribute__((noinline)) static void second(int count)
{
    double x = sink;
    for (int i = 0; i < count; i++) {
        x = x * 0.9999998 + 2e-9;
    }
    sink = x;
}

static void stay_on_two_cores(void)
{
    cpu_set_t all, two;
    CPU_ZERO(&two);
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &two);
        }
    }
    sched_setaffinity(0, sizeof two, &two);
}

int main(int argc, char **argv)
{
    int rank;
    double told[2] = {0.0, 0.0}, one = 1.0, sum;
    stay_on_two_cores();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < STEPS; step++) {
        double start = cpu_s();
        first(1700000);
        double middle = cpu_s();
        second(750000);
        told[0] += middle - start;
        told[1] += cpu_s() - middle;
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    printf("%d %.4f %.4f\n", rank, told[0], told[1]);
    return MPI_Finalize();
}
