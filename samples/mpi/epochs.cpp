// Ranks write into the windows of their neighbours in epochs of post, start, complete and wait; one prepares slowly.

// /// scalana
// planted = "rank 2 sleeps 300 ms a step before it writes to its neighbours"
// symptom = "MPI_Win_wait of its neighbours, then MPI_Win_start of theirs"
//
// [[faults]]
// marker = "fault"
// function = "prepare"
// ranks = [2]
// kind = "sleep"
// ///

#include <mpi.h>
#include <unistd.h>

#include "planted.hpp"

static void prepare()
{
    Planted planted;
    usleep(300000);  // <- fault
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int beside[2] = {(rank + 1) % size, (rank + size - 1) % size};
    MPI_Group world, neighbours;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, beside, &neighbours);
    double *halo, edge = rank;
    MPI_Win window;
    MPI_Win_allocate(2 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &halo, &window);
    {
        Loop loop;
        for (int step = 0; step < 3; step++) {
            MPI_Win_post(neighbours, 0, window);
            if (rank == 2 && argc < 2) {
                prepare();
            }
            MPI_Win_start(neighbours, 0, window);
            for (int side = 0; side < 2; side++) {
                MPI_Put(&edge, 1, MPI_DOUBLE, beside[side], side, 1, MPI_DOUBLE, window);
            }
            MPI_Win_complete(window);
            MPI_Win_wait(window);
        }
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
