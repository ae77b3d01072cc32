// A solver in C++ on a cube of cells: its work shrinks with the volume of a rank's part, the halo with the surface.

// /// scalana
// sizes = [2, 4, 8]
// scaling = "strong"
// planted = "packing the halo takes 500 ms divided by the ranks to the power 2/3"
// symptom = "none: all ranks are equally busy"
//
// [[faults]]
// marker = "fault"
// function = "pack_halo"
// kind = "non-scalable"
// growth = "falls"
// lost_s = 1.48
// seconds_at_64 = 0.125
// ///

#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

using Seconds = std::chrono::duration<double>;

constexpr int STEPS = 4;
constexpr double SOLVE_S = 0.8;  // one step of the solver on a single rank
constexpr double HALO_S = 0.500;
constexpr int EDGE = 128;

static void pack_halo(std::vector<double> &halo, int ranks)
{
    std::this_thread::sleep_for(Seconds(HALO_S / std::cbrt(static_cast<double>(ranks) * ranks)));  // <- fault
    halo[0] = ranks;
}

static double solve(const std::vector<double> &halo, int ranks)
{
    std::this_thread::sleep_for(Seconds(SOLVE_S / ranks));
    return halo[0] / ranks;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    std::vector<double> halo(EDGE), received(EDGE);
    double sum = 0.0;
    for (int step = 0; step < STEPS; step++) {
        pack_halo(halo, ranks);
        MPI_Sendrecv(halo.data(), EDGE, MPI_DOUBLE, next, 0, received.data(), EDGE, MPI_DOUBLE, previous, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double residual = solve(received, ranks);
        MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        std::printf("residual %g\n", sum);
    }
    MPI_Finalize();
}
