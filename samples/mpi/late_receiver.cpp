// Large blocking sends wait for their receiver, which is busy with something else first.

// /// scalana
// planted = "rank 1 sleeps 50 ms a step before it receives 1 MB from rank 0"
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

#include <cstdio>
#include <vector>

static void write_snapshot()
{
    usleep(50000);  // <- fault
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<double> field(131072, 1.0);
    double sum = 0;
    for (int step = 0; step < 25; step++) {
        for (double value : field) {
            sum += value;
        }
        if (rank == 0) {
            MPI_Send(field.data(), 131072, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
        } else if (rank == 1) {
            if (argc < 2) {
                write_snapshot();
            }
            MPI_Recv(field.data(), 131072, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    std::printf("%d %g\n", rank, sum);
    MPI_Finalize();
    return 0;
}
