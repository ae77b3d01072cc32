/* Computes in a library of its own. */
#include <mpi.h>

double smooth(double *values, int count, double until);

int main(int argc, char **argv)
{
    static double values[5000];
    MPI_Init(&argc, &argv);
    double sum = smooth(values, 5000, MPI_Wtime() + 0.7);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return sum > 1;
}
