/* Very many calls on all ranks, with one rank that is slower: a neighbour's message from a given rank, one from anybody,
 * and a sum, in every round. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double work(int n)
{
    double sum = 0;
    for (int i = 1; i <= n; i++) {
        sum += 1.0 / i; /* slow */
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 10000;
    double total = 0, in[2], sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[4];
        total += work(rank == 1 ? 30000 : 1000);
        MPI_Irecv(&in[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&in[1], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&total, 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&total, 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&in[0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf("%g\n", sum);
    }
    MPI_Finalize();
    return 0;
}
