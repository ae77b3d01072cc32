// A solver in C++ whose root packs a message for every rank, one after the other, while all wait for its scatter.

// /// scalana
// sizes = [2, 4, 8]
// scaling = "strong"
// planted = "rank 0 goes over all ranks in every step, 20 ms each"
// symptom = "MPI_Scatter on all other ranks"
//
// [[faults]]
// marker = "fault"
// function = "pack"
// kind = "serial"
// growth = "like p"
// lost_s = 4.8
// seconds_at_64 = 5.12
// ///

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

using Seconds = std::chrono::duration<double>;

constexpr int STEPS = 4;
constexpr double SOLVE_S = 0.8;  // one step of the solver on a single rank
constexpr double PACK_S = 0.020;
constexpr int CELLS = 256;

static double solve(int ranks)
{
    std::this_thread::sleep_for(Seconds(SOLVE_S / ranks));
    return 1.0 / ranks;
}

static void pack(std::vector<double> &plan, int ranks)
{
    for (int peer = 0; peer < ranks; peer++) {
        std::this_thread::sleep_for(Seconds(PACK_S));  // <- fault
        plan[peer * CELLS] = peer;
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::vector<double> plan(rank == 0 ? ranks * CELLS : 0), mine(CELLS);
    double residual = 0.0, sum = 0.0;
    for (int step = 0; step < STEPS; step++) {
        residual = solve(ranks);
        MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            pack(plan, ranks);
        }
        MPI_Scatter(plan.data(), CELLS, MPI_DOUBLE, mine.data(), CELLS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        std::printf("residual %g\n", sum);
    }
    MPI_Finalize();
}
