/* OpenMP threads of one rank work longer than those of the others. */
#include <mpi.h>
#include <stdio.h>

static double cell(int i)
{
    double sum = 0;
    for (int k = 1; k < 2000; k++) {
        sum += 1.0 / (k + i); /* slow */
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, provided;
    double sum = 0, all = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 20; step++) {
        int cells = rank == 1 ? 24000 : 1000;
#pragma omp parallel for reduction(+ : sum) num_threads(2)
        for (int i = 0; i < cells; i++) {
            sum += cell(i);
        }
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    printf("%d %g\n", rank, all);
    MPI_Finalize();
    return 0;
}
