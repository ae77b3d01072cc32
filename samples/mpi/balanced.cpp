// The same work on every rank, more ranks than most machines for tests have cores, and a lot of time in MPI.

// /// scalana
// planted = "nothing"
// symptom = "ranks take turns on the cores, so that one or the other is always late at MPI_Allreduce"
// balanced = true
// ///

#include <mpi.h>

#include "planted.hpp"

static double relax(int cells)
{
    double sum = 0;
    for (int i = 1; i < cells; i++) {
        sum += 1.0 / i;
    }
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double total = 0;
    {
        Loop loop;
        for (int step = 0; step < 12; step++) {
            double mine = relax(3000000), sum, halo;
            MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &halo, 1, MPI_DOUBLE, (rank + size - 1) % size, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            total += sum + halo;
        }
    }
    MPI_Finalize();
    return total < 0;
}
