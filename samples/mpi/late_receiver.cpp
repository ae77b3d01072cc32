// Large blocking sends wait for their receiver, which is busy with something else first.

// /// scalana
// planted = "rank 1 sleeps 225 ms a step before it receives 1 MB from rank 0"
// symptom = "MPI_Send of rank 0, MPI_Barrier of the others"
//
// [[faults]]
// marker = "fault"
// function = "write_snapshot"
// ranks = [1]
// kind = "sleep"
// ///

#include <mpi.h>
#include <unistd.h>

#include <vector>

#include "planted.hpp"

static void write_snapshot()
{
    Planted planted;
    usleep(225000);  // <- fault
}

static double run(int rank, bool slow)
{
    Loop loop;
    std::vector<double> field(131072, 1.0);
    double sum = 0;
    for (int step = 0; step < 4; step++) {
        for (double value : field) {
            sum += value;
        }
        if (rank == 0) {
            MPI_Send(field.data(), 131072, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
        } else if (rank == 1) {
            if (slow) {
                write_snapshot();
            }
            MPI_Recv(field.data(), 131072, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double sum = run(rank, argc < 2);
    MPI_Finalize();
    return sum < 0;
}
