/* Ranks in a ring tell each other by different means; rank 2 is slow before it does. */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

static void slow(void) { usleep(20000); }
static void ordinary(void) { usleep(1000); }

int main(int argc, char **argv)
{
    int rank, size, dims[1], periods[1] = {1};
    double *base, value = 1, in[2] = {0, 0};
    MPI_Win win;
    MPI_Group world, to, from;
    MPI_Comm ring;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    const char *by = argv[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Win_allocate(64 * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &right, &to);
    MPI_Group_incl(world, 1, &left, &from);
    dims[0] = size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    for (int step = 0; step < 20; step++) {
        int locks = !strcmp(by, "lock");
        if (rank == 2 && !locks) {
            slow(); /* slow */
        } else {
            ordinary();
        }
        if (!strcmp(by, "fence")) {
            MPI_Win_fence(0, win);
            MPI_Put(&value, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, win);
            MPI_Win_fence(0, win);
        } else if (!strcmp(by, "epochs")) {
            MPI_Win_post(from, 0, win);
            MPI_Win_start(to, 0, win);
            MPI_Put(&value, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, win);
            MPI_Win_complete(win);
            for (int done = 0; !done;) {
                if (rank == 1) {
                    MPI_Win_test(win, &done);
                } else {
                    done = MPI_Win_wait(win) == MPI_SUCCESS;
                }
            }
        } else if (locks && rank > 0) { /* the target stays in MPI */
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Accumulate(&value, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_SUM, win);
            MPI_Win_flush(0, win);
            if (rank == 2) {
                slow(); /* slow */
            }
            MPI_Win_unlock(0, win);
        } else if (!strcmp(by, "neighbours")) {
            MPI_Neighbor_allgather(&value, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring);
        } else if (!strcmp(by, "posted")) {
            MPI_Ineighbor_allgather(&value, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
