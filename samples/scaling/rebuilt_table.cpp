// A solver in C++ in which every rank rebuilds the same table in every step: nobody waits, and nobody gets faster.

// /// scalana
// sizes = [2, 4, 8]
// scaling = "strong"
// planted = "every rank builds the whole table in every step, 100 ms"
// symptom = "none: all ranks are equally busy"
//
// [[faults]]
// marker = "fault"
// function = "Table::build"
// kind = "replicated"
// growth = "constant"
// lost_s = 2.4
// seconds_at_64 = 0.4
// ///

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

using Seconds = std::chrono::duration<double>;

constexpr int STEPS = 4;
constexpr double SOLVE_S = 0.8;  // one step of the solver on a single rank
constexpr double TABLE_S = 0.100;

class Table {
public:
    void build(int step)
    {
        std::this_thread::sleep_for(Seconds(TABLE_S));  // <- fault
        for (double &entry : entries) {
            entry = 0.5 * step;
        }
    }

    double at(int place) const { return entries[place]; }

private:
    std::vector<double> entries = std::vector<double>(64);
};

static double solve(const Table &table, int ranks)
{
    std::this_thread::sleep_for(Seconds(SOLVE_S / ranks));
    return table.at(7) / ranks;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Table table;
    double sum = 0.0;
    for (int step = 0; step < STEPS; step++) {
        table.build(step);
        double residual = solve(table, ranks);
        MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        std::printf("residual %g\n", sum);
    }
    MPI_Finalize();
}
