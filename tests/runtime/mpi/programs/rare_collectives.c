/* Very many messages between neighbours; a sum in each tenth round, and a gathered one in each five-hundredth. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 20000;
    double mine = 1, theirs = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int i = 0; i < rounds; i++) {
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 1, &theirs, 1, MPI_DOUBLE, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (i % 10 == 0) {
            MPI_Allreduce(&theirs, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        if (i % 500 == 0) {
            MPI_Reduce(&theirs, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, other);
        }
    }
    MPI_Comm_free(&other);
    MPI_Finalize();
    return 0;
}
