// Pairs of ranks reduce to their first, whom a second level joins: the rank that is late is not where the wait shows.

// /// scalana
// planted = "rank 1 sleeps 225 ms a step before the reduction of its pair"
// symptom = "MPI_Allreduce among the first ranks of the pairs, and the broadcasts below"
//
// [[faults]]
// marker = "fault"
// function = "load_tile"
// ranks = [1]
// kind = "sleep"
// ///

#include <mpi.h>
#include <unistd.h>

#include "planted.hpp"

static double load_tile(bool slow)
{
    double sum = 0;
    for (int i = 1; i < 100000; i++) {
        sum += 1.0 / i;
    }
    if (slow) {
        Planted planted;
        usleep(225000);  // <- fault
    }
    return sum;
}

static double reduce(double mine, MPI_Comm pair, MPI_Comm leaders)
{
    double sum = 0, all = 0;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, pair);
    if (leaders != MPI_COMM_NULL) {
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, leaders);
    }
    MPI_Bcast(&all, 1, MPI_DOUBLE, 0, pair);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm pair, leaders;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 0, rank, &leaders);
    double total = 0;
    {
        Loop loop;
        for (int step = 0; step < 4; step++) {
            total += reduce(load_tile(rank == 1 && argc < 2), pair, leaders);
        }
    }
    MPI_Finalize();
    return total < 0;
}
