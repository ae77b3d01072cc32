// A matrix in blocks: sums along the rows, then along the columns of the grid of ranks; one block is dense.

// /// scalana
// planted = "the block of rank 2 has 30 times as many entries"
// symptom = "MPI_Allreduce in its row and its column, then in those of the ranks that waited"
//
// [[faults]]
// marker = "fault"
// function = "multiply<double>"
// ranks = [2]
// kind = "data"
// ///

#include <mpi.h>

#include <vector>

#include "planted.hpp"

template <typename T>
static T multiply(const std::vector<T> &entries, T by)
{
    T sum = 0;
    for (const T &entry : entries) {  // <- fault
        sum += entry / (by + sum * 1e-9);
    }  // <- end of fault
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm row, column;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    std::vector<double> entries(400000, 1.0), dense(rank == 2 && argc < 2 ? 12000000 : 0, 1.0);
    double mine, sum = 1;
    {
        Loop loop;
        for (int step = 0; step < 10; step++) {
            mine = multiply(entries, sum);
            if (!dense.empty()) {
                Planted planted;
                mine += multiply(dense, sum);
            }
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, row);
            mine = sum;
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_MAX, column);
        }
    }
    MPI_Finalize();
    return sum < 0;
}
