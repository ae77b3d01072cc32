// A ring that computes before it sends, though what it sends is ready: on one rank that is a lot.

// /// scalana
// planted = "rank 1 works 120 ms between MPI_Irecv and MPI_Isend"
// symptom = "MPI_Wait of rank 2, and by and by of everybody"
//
// [[faults]]
// marker = "fault"
// function = "interior"
// ranks = [1]
// kind = "busy"
// ///

#include <mpi.h>

#include <vector>

#include "planted.hpp"

static double interior(int cells)
{
    double sum = 0;
    for (int i = 1; i < cells; i++) {  // <- fault
        sum += 1.0 / i;
    }  // <- end of fault
    return sum;
}

static double run(int rank, int size, bool slow)
{
    Loop loop;
    std::vector<double> edge(512, 1.0), halo(512);
    double total = 0;
    for (int step = 0; step < 6; step++) {
        MPI_Request requests[2];
        MPI_Irecv(halo.data(), 512, MPI_DOUBLE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
        total += interior(1000000);
        if (slow) {
            Planted planted;
            total += interior(80000000);
        }
        MPI_Isend(edge.data(), 512, MPI_DOUBLE, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        edge.swap(halo);
    }
    return total;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double total = run(rank, size, rank == 1 && argc < 2);
    MPI_Finalize();
    return total < 0;
}
