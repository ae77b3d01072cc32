// Rank 0 keeps the state of all on disk and waits until it is there, before it tells the others to go on.

// /// scalana
// planted = "fsync for every page of a checkpoint on rank 0, every second step"
// symptom = "MPI_Bcast of the others"
//
// [[faults]]
// marker = "fault"
// function = "save"
// ranks = [0]
// kind = "stall"
// ///

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "planted.hpp"

static void save(int file, const std::vector<char> &state)
{
    Planted planted;
    const double until = MPI_Wtime() + 0.45;  // as many pages as a disk of any speed writes in 450 ms
    for (std::size_t page = 0; MPI_Wtime() < until; page = (page + 4096) % state.size()) {  // <- fault
        if (pwrite(file, &state[page], 4096, static_cast<off_t>(page)) < 0 || fsync(file) < 0) {
            std::perror("checkpoint");
        }
        usleep(2000);  // and as a slow one waits
    }  // <- end of fault
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[] = "/tmp/checkpoint.XXXXXX";
    const int file = rank == 0 ? mkstemp(name) : -1;
    if (rank == 0) {
        unlink(name);
    }
    std::vector<char> state(1 << 16);
    {
        Loop loop;
        for (int step = 0; step < 4; step++) {
            for (char &value : state) {
                value = static_cast<char>(value + step);
            }
            MPI_Reduce(rank == 0 ? MPI_IN_PLACE : state.data(), state.data(), 64, MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
            if (rank == 0 && step % 2 && argc < 2) {
                save(file, state);
            }
            MPI_Bcast(state.data(), 64, MPI_CHAR, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
