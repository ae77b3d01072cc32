/* A program that is linked with Python, as far as can be seen: rank 0 initialises it, after MPI. Each rank prints what a
 * Python of its own finds in its environment. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int Py_IsInitialized(void);
int Py_IsInitialized(void)
{
    return 0;
}

int main(int argc, char **argv)
{
    int rank, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 5; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    const char *recorded = getenv("SCALANA_NATIVE");
    printf("%d\n", recorded != NULL && atoi(recorded) > 0);
    return MPI_Finalize();
}
