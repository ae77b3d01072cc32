/* One rank waits for something before it begins MPI, and it never comes. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

static const char *rank_of_launcher(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : getenv("PMI_RANK");
}

int main(int argc, char **argv)
{
    const char *rank = rank_of_launcher();
    if (rank && atoi(rank) == 1) {
        sleep(60); /* here */
    }
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
