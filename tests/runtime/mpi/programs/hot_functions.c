/* Functions that take very different amounts of CPU time, in C and in a library. */
#include <math.h>
#include <mpi.h>

__attribute__((noinline)) static double divide(int n)
{
    double sum = 0;
    for (int i = 1; i < n; i++) {
        sum += 1.0 / i;
    }
    return sum;
}

__attribute__((noinline)) static double multiply(int n)
{
    double product = 1;
    for (int i = 1; i < n; i++) {
        product = product * 1.0000001 + 1e-9;
    }
    return product;
}

__attribute__((noinline)) static double mix(int n)
{
    double state = 0.5;
    for (int i = 1; i < n; i++) {
        state = 3.9 * state * (1 - state);
    }
    return state;
}

int main(int argc, char **argv)
{
    double mine = 0, all;
    MPI_Init(&argc, &argv);
    for (int step = 0; step < 40; step++) {
        mine += divide(12000000 + step) + multiply(4000000 + step) + mix(2000000 + step);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return isnan(all);
}
