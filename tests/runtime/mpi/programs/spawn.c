/* Starts two more processes of itself, which then take part in all that follows. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, inter, merged;
    int rank, value = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        int codes[2];
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
        MPI_Intercomm_merge(inter, 0, &merged);
    } else {
        inter = parent;
        MPI_Intercomm_merge(inter, 1, &merged);
    }
    int r, n;
    MPI_Comm_rank(merged, &r); MPI_Comm_size(merged, &n);
    for (int i = 0; i < 100; i++) {
        value = r;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, merged);
        if (r == 0) MPI_Send(&value, 1, MPI_INT, n - 1, 3, merged);
        if (r == n - 1) MPI_Recv(&value, 1, MPI_INT, 0, 3, merged, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(inter);
    MPI_Comm_disconnect(&inter);
    printf("rank %d of %s: merged %d of %d sum %d\n", rank, parent == MPI_COMM_NULL ? "first" : "spawned", r, n, sum);
    MPI_Finalize();
    return 0;
}
