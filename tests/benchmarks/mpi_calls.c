/* Many small calls of MPI with some work between them: what recording costs, call by call. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Products of whole numbers, one after the other. Divisions of floating-point numbers took 6 % more or less by what was
 * called before them, for a reason that was not found, and that would be taken for a cost or a gain. */
static double work(int n)
{
    static uint64_t state = 1;
    uint64_t x = state;
    for (int i = 0; i < n; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    state = x;
    return (double)(x >> 60);
}

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double total, message, sum;

static void block(int rounds, int amount)
{
    for (int i = 0; i < rounds; i++) {
        total += work(amount);
        MPI_Request requests[2];
        /* to oneself: nobody waits, so that the CPU time is that of the calls */
        MPI_Irecv(&message, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(&total, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&message, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100000, amount = argc > 2 ? atoi(argv[2]) : 2000;
    MPI_Init(&argc, &argv);
    double before = cpu_s();
    block(rounds, amount);
    printf("%.9f\n", cpu_s() - before);
    MPI_Finalize();
    return sum < 0;
}
