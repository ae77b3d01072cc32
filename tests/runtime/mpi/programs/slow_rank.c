/* One rank works longer than the others, inside a function that all of them call. */
#include <mpi.h>
#include <stdio.h>

static double refine(int sweeps)
{
    double sum = 0;
    for (int i = 1; i <= sweeps; i++) { /* slow */
        sum += 1.0 / i / i; /* slow */
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, size;
    double mine = 0, all = 0, from = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < 30; step++) {
        mine += refine(rank == 2 ? 8000000 : 400000);
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &from, 1, MPI_DOUBLE, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf("%g %g\n", all, from);
    }
    MPI_Finalize();
    return 0;
}
