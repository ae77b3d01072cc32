// What a report is compared with: how long the loop of a program took, and how much of that was planted.
#ifndef PLANTED_HPP
#define PLANTED_HPP

#include <mpi.h>

#include <cstdio>

inline double planted_s = 0;

// Lives as long as something planted runs.
class Planted {
public:
    ~Planted() { planted_s += MPI_Wtime() - since; }

private:
    double since = MPI_Wtime();
};

// Lives as long as the loop does; rank 0 says how long.
class Loop {
public:
    Loop()
    {
        MPI_Barrier(MPI_COMM_WORLD);
        since = MPI_Wtime();
    }

    ~Loop()
    {
        MPI_Barrier(MPI_COMM_WORLD);
        double loop_s = MPI_Wtime() - since, sum = 0;
        int rank;
        MPI_Reduce(&planted_s, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0) {
            std::printf("loop seconds: %.4f\nplanted seconds: %.4f\n", loop_s, sum);
        }
    }

private:
    double since;
};

#endif
