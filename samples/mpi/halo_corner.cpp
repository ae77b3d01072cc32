// A stencil on a grid of blocks, two wide, that exchange halos; one corner of the domain needs many more sweeps.

// /// scalana
// planted = "the block in the corner, on rank 3, is smoothed with 30 times as many sweeps"
// symptom = "MPI_Waitall of its neighbours, then of theirs"
//
// [[faults]]
// marker = "fault"
// function = "smooth"
// ranks = [3]
// kind = "busy"
// ///

#include <mpi.h>

#include <vector>

#include "planted.hpp"

constexpr int SIDE = 400;

struct Block {
    std::vector<double> cells = std::vector<double>(SIDE * SIDE, 1.0);
    std::vector<double> halo[4], edge[4];
    int neighbour[4];
};

static void smooth(Block &block, int sweeps)
{
    for (int sweep = 0; sweep < sweeps; sweep++) {  // <- fault
        for (int i = SIDE; i < SIDE * (SIDE - 1); i++) {
            block.cells[i] = 0.25 * (block.cells[i - 1] + block.cells[i + 1] + block.cells[i - SIDE] + block.cells[i + SIDE]);
        }
    }  // <- end of fault
}

static void exchange(Block &block, MPI_Comm grid)
{
    MPI_Request requests[8];
    for (int side = 0; side < 4; side++) {
        MPI_Irecv(block.halo[side].data(), SIDE, MPI_DOUBLE, block.neighbour[side], side ^ 1, grid, &requests[side]);
    }
    for (int side = 0; side < 4; side++) {
        MPI_Isend(block.edge[side].data(), SIDE, MPI_DOUBLE, block.neighbour[side], side, grid, &requests[4 + side]);
    }
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
}

static void run(Block &block, MPI_Comm grid, bool slow)
{
    Loop loop;
    for (int step = 0; step < 5; step++) {
        smooth(block, 4);
        if (slow) {
            Planted planted;
            smooth(block, 116);
        }
        exchange(block, grid);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int dims[2] = {size / 2, 2}, periods[2] = {0, 0};
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    Block block;
    for (int side = 0; side < 4; side++) {
        block.halo[side].resize(SIDE);
        block.edge[side].resize(SIDE);
    }
    MPI_Cart_shift(grid, 0, 1, &block.neighbour[0], &block.neighbour[1]);
    MPI_Cart_shift(grid, 1, 1, &block.neighbour[2], &block.neighbour[3]);
    run(block, grid, rank == 3 && argc < 2);
    MPI_Finalize();
    return 0;
}
