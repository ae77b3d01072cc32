/* Spends its time in starting other programs, and in waiting for them. */
#include <mpi.h>
#include <stdlib.h>

static int start(void)
{
    return system("true"); /* here */
}

int main(int argc, char **argv)
{
    int failed = 0;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 200; i++) {
        failed += start() != 0;
    }
    MPI_Finalize();
    return failed;
}
