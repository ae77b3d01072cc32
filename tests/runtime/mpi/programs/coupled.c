/* One half of a job of two programs; the other half is coupled.py. With SLOW=c its last rank is slow. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

void advance(long rounds); /* also called from Python, see in_library.py */

static volatile double sink;

__attribute__((noinline)) void advance(long rounds)
{
    for (long i = 0; i < rounds; i++)
        sink += (double)i * 0.5; /* the work */
}

int main(int argc, char **argv)
{
    int rank, level;
    const char *slow = getenv("SLOW");
    double data[4] = {0}, out[4];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level); /* as mpi4py: MPICH 5.0 fails where levels differ */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 20; step++) {
        advance(slow && strcmp(slow, "c") == 0 && rank == 1 ? 20 * 1000 * 1000 : 100 * 1000);
        MPI_Allreduce(data, out, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
