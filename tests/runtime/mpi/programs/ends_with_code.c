/* All ranks end MPI, and leave with a code of their own, the last one a little later. */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 20; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    if (rank == 1) {
        usleep(200000);
    }
    return 3;
}
