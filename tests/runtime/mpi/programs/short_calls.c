/* Computes for a millisecond or so and meets the others, again and again. */
#include <mpi.h>

int main(int argc, char **argv)
{
    double value = 1, sum = 0;
    MPI_Init(&argc, &argv);
    double end = MPI_Wtime() + 1.5;
    for (int go = 1; go;) {
        for (int i = 0; i < 400000; i++) {
            value = value * 0.999999 + 1e-6;
        }
        go = MPI_Wtime() < end;
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &go, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return sum > 0 ? 0 : 1;
}
