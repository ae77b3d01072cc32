// A solver in C++ that gathers the state of all ranks on all ranks in every step: the more ranks, the more for each.

// /// scalana
// sizes = [2, 4, 8]
// scaling = "weak"
// planted = "an all-gather of 8 MB of every rank"
// symptom = "MPI_Allgather, on all ranks alike"
//
// [[faults]]
// marker = "fault"
// function = "exchange"
// kind = "communication"
// ///

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

using Seconds = std::chrono::duration<double>;

constexpr int STEPS = 10;
constexpr double SOLVE_S = 0.05;
constexpr int STATE = 1 << 20;  // numbers of eight bytes that a rank contributes

static void solve(std::vector<double> &state)
{
    std::this_thread::sleep_for(Seconds(SOLVE_S));
    state[0] += 1.0;
}

static void exchange(const std::vector<double> &state, std::vector<double> &everything)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allgather(state.data(), STATE, MPI_DOUBLE, everything.data(), STATE, MPI_DOUBLE, MPI_COMM_WORLD);  // <- fault
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::vector<double> state(STATE, 1.0), everything(static_cast<size_t>(STATE) * ranks);
    for (int step = 0; step < STEPS; step++) {
        solve(state);
        exchange(state, everything);
    }
    if (rank == 0) {
        std::printf("state %g\n", everything[0]);
    }
    MPI_Finalize();
}
