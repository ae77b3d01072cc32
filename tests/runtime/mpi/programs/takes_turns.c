/* Ranks on two cores that compute in two functions between calls, and tell the CPU seconds in each: "RANK FIRST SECOND". */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>

#include "two_cores.h"

#define STEPS 240

static volatile double sink = 1.0;

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
