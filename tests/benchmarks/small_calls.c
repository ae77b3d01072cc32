/* Many small calls where few would do: small_calls {allreduce,halo} {wrong,right,both}. Prints the seconds of a step of
 * each way, by its own clock: with both, five steps one way and five the other in turn. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 200000, VALUES = 400, CELLS = 3000, ROUNDS = 11, STEPS = 5 };

static double grid[POINTS], values[VALUES], total[VALUES], out[CELLS], in[CELLS];
static MPI_Request requests[2 * CELLS];

static double relax(void)
{
    double sum = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 1; i + 1 < POINTS; i++) {
            grid[i] = 0.25 * (grid[i - 1] + 2.0 * grid[i] + grid[i + 1]) + 1e-3;
            sum += grid[i];
        }
    }
    return sum;
}

static void reduce(int right)
{
    if (right) {
        MPI_Allreduce(values, total, VALUES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    for (int i = 0; i < VALUES; i++) {
        MPI_Allreduce(&values[i], &total[i], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* <- allreduce */
    }
}

static void exchange(int other, int right)
{
    int each = right ? CELLS : 1, count = 0;
    for (int i = 0; i < CELLS; i += each) {
        MPI_Irecv(&in[i], each, MPI_DOUBLE, other, 7, MPI_COMM_WORLD, &requests[count++]);
    }
    for (int i = 0; i < CELLS; i += each) {
        MPI_Isend(&out[i], each, MPI_DOUBLE, other, 7, MPI_COMM_WORLD, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE); /* <- halo */
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) {
        fprintf(stderr, "usage: small_calls {allreduce,halo,nothing} {wrong,right,both}\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int both = !strcmp(argv[2], "both"), right = !strcmp(argv[2], "right");
    double taken[2] = {0, 0}, residual = 0, sum;
    for (int round = 0; round < ROUNDS * (1 + both); round++) {
        int way = both ? round % 2 : right;
        double begun = MPI_Wtime();
        for (int step = 0; step < STEPS; step++) {
            residual += relax();
            if (!strcmp(argv[1], "allreduce")) {
                reduce(way);
            } else if (!strcmp(argv[1], "halo")) {
                exchange(rank ^ 1, way);
            }
            MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            residual = sum * 1e-9;
        }
        if (round > both) {
            taken[way] += (MPI_Wtime() - begun) / STEPS / (ROUNDS - 1);
        }
    }
    if (rank == 0) {
        printf(both ? "%g %g\n" : "%g\n", taken[both ? 0 : right], taken[1]);
    }
    MPI_Finalize();
    return 0;
}
