// The cases of helpers.py in C++: small functions that all ranks call, and one rank calls more.

#include <mpi.h>
#include <time.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "../../../samples/mpi/vectors.hpp"

static const int STEPS = 12;
static int rank;
static volatile double sink;

// One rank waits for its mesh as all do for their queue.

static void pause_ms(long ms)
{
    timespec rest = {0, ms * 1000000};
    nanosleep(&rest, nullptr);
}

static void drain(int messages)
{
    for (int i = 0; i < messages; i++) {
        pause_ms(4);
        sink = sink + 1;
    }
}

static void repair(int cells)
{
    for (int i = 0; i < cells; i++) {
        pause_ms(4);  // <- pause: 1
        sink = sink * 0.5;
    }
}

static void mesh()
{
    for (int step = 0; step < STEPS; step++) {
        drain(2);
        if (rank == 1) {
            repair(20);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// One rank looks at the clock until it is late enough.

static double now()
{
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

static void relax()
{
    sink = sink * 0.5 + 1.0;
}

static void settle(double budget_s)
{
    double until = now() + budget_s;
    while (now() < until) {  // <- clock: 2
        relax();
    }  // <- end of clock
}

static void deadline()
{
    for (int step = 0; step < STEPS; step++) {
        double since = now();
        settle(rank == 2 ? 0.08 : 0.0);
        sink = now() - since;
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// A function is called by another name.

static void hold(long ms)
{
    timespec rest = {0, ms * 1000000};
    nanosleep(&rest, nullptr);
}

static std::function<void()> retry;

static void forwarded()
{
    retry = [] { hold(8); };
    for (int step = 0; step < STEPS; step++) {
        hold(4);
        if (rank == 3) {
            for (int i = 0; i < 10; i++) {
                retry();  // <- function: 3
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// One rank logs every cell.

static FILE *journal;
static double state[400];

static void log_state(int level, const char *what)
{
    if (level > 0) {
        for (double value : state) {
            std::fprintf(journal, "%s %.17g\n", what, value);
        }
        std::fflush(journal);
    }
}

static void logger()
{
    journal = std::fopen("/dev/null", "w");
    for (double &value : state) {
        value = (&value - state) * 0.1;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 60; i++) {
            log_state(1, "step");
        }
        if (rank == 0) {
            for (int cell = 0; cell < 400; cell++) {
                log_state(1, "cell");  // <- log: 0
                sink = sink + 1;
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// One rank makes its vectors orthogonal to more others.

static void orthogonalise(const std::vector<double> &vector, int others)
{
    for (int i = 0; i < others; i++) {
        sink = dot(vector, vector);  // <- dot: 2
    }
}

static void krylov()
{
    std::vector<double> vector(4000, 0.5);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 1000; i++) {
            sink = dot(vector, vector);
        }
        orthogonalise(vector, rank == 2 ? 12000 : 20);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// The function itself is the cause: it does more for each call of one rank, or is called by that rank alone.

static void sweep(std::vector<double> &field, int rounds)
{
    for (int round = 0; round < rounds; round++) {  // <- kernel: 3
        for (double &value : field) {
            value = value * 0.5 + 1.0;
        }
    }  // <- end of kernel
}

static void kernel()
{
    std::vector<double> field(4000, 0.5);
    for (int step = 0; step < STEPS; step++) {
        sweep(field, rank == 3 ? 20000 : 1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static unsigned rebuild(unsigned entries)
{
    unsigned table = 0;
    for (unsigned entry = 0; entry < entries; entry++) {  // <- alone: 0
        table = (table * 31 + entry) % 65521;
    }  // <- end of alone
    return table;
}

static void alone()
{
    for (int step = 0; step < STEPS; step++) {
        if (rank == 0) {
            sink = rebuild(15000000);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// The function is slower for all its callers.

static double blend(double value)
{
    for (int i = 0; i < (rank == 1 ? 800 : 40); i++) {  // <- slower: 1
        value = value * 0.999 + 0.001;
    }  // <- end of slower
    return value;
}

static void slower()
{
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 20000; i++) {
            sink = blend(1.0);
        }
        for (int i = 0; i < 20000; i++) {
            sink = blend(2.0);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static const struct {
    const char *name;
    void (*run)();
} CASES[] = {
    {"pause", mesh}, {"clock", deadline}, {"function", forwarded}, {"log", logger},
    {"dot", krylov}, {"kernel", kernel}, {"alone", alone}, {"slower", slower},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (const auto &some : CASES) {
        if (argc < 2 || std::strcmp(argv[1], some.name) == 0) {
            some.run();
        }
    }
    MPI_Finalize();
    return 0;
}
