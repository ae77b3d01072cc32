/* One of nearly every kind of call, with an outcome that is the same in every run. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_ISENDRECV
#endif

static int rank, size, left, right;
static double in[64], out[64], many[1024], more[1024];

static void messages(MPI_Comm comm)
{
    MPI_Request requests[4];
    MPI_Status status, statuses[4];
    MPI_Message message;
    int index, found, indices[4], flag = 0;
    for (int i = 0; i < 5; i++) {
        MPI_Irecv(in, 8, MPI_DOUBLE, left, i, comm, &requests[0]);
        MPI_Isend(out, 8, MPI_DOUBLE, right, i, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Irecv(in, 8, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
    MPI_Issend(out, 8, MPI_DOUBLE, right, 3, comm, &requests[1]);
    MPI_Waitany(2, requests, &index, &status);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    MPI_Irecv(in, 8, MPI_DOUBLE, left, 1, comm, &requests[0]);
    MPI_Send(out, 8, MPI_DOUBLE, right, 1, comm);
    MPI_Wait(&requests[0], &status);
    MPI_Irecv(in, 8, MPI_DOUBLE, left, 1, comm, &requests[0]);
    MPI_Bcast(out, 8, MPI_DOUBLE, 0, comm);
    MPI_Ssend(out, 0, MPI_DOUBLE, MPI_PROC_NULL, 1, comm);
    MPI_Isend(out, 8, MPI_DOUBLE, right, 1, comm, &requests[1]);
    for (int done = 0; done < 2; done += found) {
        MPI_Waitsome(2, requests, &found, indices, statuses);
    }
    for (int i = 0; i < 2; i++) { /* libraries may give one handle to all that are complete at once */
        MPI_Isend(out, 1, MPI_DOUBLE, right, 4, comm, &requests[i]);
        MPI_Irecv(in, 1, MPI_DOUBLE, left, 4, comm, &requests[2 + i]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(out, 4, MPI_DOUBLE, right, 5, in, 4, MPI_DOUBLE, left, 5, comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(in, 4, MPI_DOUBLE, right, 6, MPI_ANY_SOURCE, 6, comm, &status);
#ifdef HAS_ISENDRECV
    MPI_Isendrecv(out, 4, MPI_DOUBLE, right, 5, in, 4, MPI_DOUBLE, left, 5, comm, &requests[0]);
    MPI_Isendrecv_replace(out, 4, MPI_DOUBLE, right, 6, left, 6, comm, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Waitall(1, &requests[1], MPI_STATUSES_IGNORE);
#endif
    MPI_Isend(out, 8, MPI_DOUBLE, right, 7, comm, &requests[0]);
    MPI_Probe(left, 7, comm, &status);
    MPI_Recv(in, 8, MPI_DOUBLE, status.MPI_SOURCE, 7, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(out, 8, MPI_DOUBLE, right, 8, comm, &requests[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 8, comm, &message, &status);
    MPI_Mrecv(in, 8, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(out, 8, MPI_DOUBLE, right, 9, comm, &requests[1]);
    MPI_Mprobe(left, 9, comm, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(in, 8, MPI_DOUBLE, &message, &requests[0]);
    MPI_Waitall(2, requests, statuses);
    MPI_Testall(0, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Recv_init(in, 8, MPI_DOUBLE, left, 10, comm, &requests[0]);
    MPI_Send_init(out, 8, MPI_DOUBLE, right, 10, comm, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Requests that outlive their communicator, that are only asked about, and that come to nothing. */
static void pending(MPI_Comm comm)
{
    MPI_Comm copy;
    MPI_Request requests[2];
    MPI_Status status;
    int there = 0;
    MPI_Comm_dup(comm, &copy);
    MPI_Irecv(in, 8, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &requests[0]);
    MPI_Isend(out, 8, MPI_DOUBLE, right, 11, copy, &requests[1]);
    MPI_Comm_free(&copy);
    while (!there) {
        MPI_Request_get_status(requests[0], &there, &status);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Irecv(in, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 12, comm, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void collectives(MPI_Comm comm)
{
    MPI_Request request;
    int members, counts[64], displs[64];
    MPI_Comm_size(comm, &members);
    for (int i = 0; i < members; i++) {
        counts[i] = 2;
        displs[i] = 2 * i;
    }
    MPI_Barrier(comm);
    MPI_Bcast(out, 8, MPI_DOUBLE, members - 1, comm);
    MPI_Reduce(out, in, 8, MPI_DOUBLE, MPI_SUM, 0, comm);
    MPI_Allreduce(out, in, 8, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Allreduce(MPI_IN_PLACE, in, 8, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Gather(out, 2, MPI_DOUBLE, many, 2, MPI_DOUBLE, 0, comm);
    MPI_Gatherv(out, 2, MPI_DOUBLE, many, counts, displs, MPI_DOUBLE, 0, comm);
    MPI_Scatter(many, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, comm);
    MPI_Scatterv(many, counts, displs, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, comm);
    MPI_Allgather(out, 2, MPI_DOUBLE, many, 2, MPI_DOUBLE, comm);
    MPI_Allgatherv(out, 2, MPI_DOUBLE, many, counts, displs, MPI_DOUBLE, comm);
    MPI_Alltoall(many, 2, MPI_DOUBLE, more, 2, MPI_DOUBLE, comm);
    MPI_Alltoallv(many, counts, displs, MPI_DOUBLE, more, counts, displs, MPI_DOUBLE, comm);
    MPI_Reduce_scatter(many, in, counts, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Reduce_scatter_block(many, in, 2, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Scan(out, in, 2, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Exscan(out, in, 2, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Ibarrier(comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(out, in, 8, MPI_DOUBLE, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_sided(MPI_Comm comm)
{
    MPI_Win win;
    double *base, value = rank;
    MPI_Win_allocate(64 * sizeof *base, sizeof *base, MPI_INFO_NULL, comm, &base, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_DOUBLE, right, 3, 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    MPI_Win_lock(MPI_LOCK_SHARED, left, 0, win);
    MPI_Get(in, 1, MPI_DOUBLE, left, 3, 1, MPI_DOUBLE, win);
    MPI_Win_unlock(left, win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Comm copy, row, line, grid, pair;
    MPI_Group world, two;
    int dims[1], periods[1] = {1}, first_two[2] = {0, 1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    messages(MPI_COMM_WORLD);
    pending(MPI_COMM_WORLD);
    collectives(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    messages(copy);
    MPI_Comm_split(copy, rank % 2, rank, &row);
    collectives(row);
    MPI_Comm_split(copy, rank == 0 ? MPI_UNDEFINED : 0, -rank, &line);
    if (line != MPI_COMM_NULL) {
        MPI_Barrier(line);
        MPI_Comm_free(&line);
    }
    dims[0] = size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    MPI_Neighbor_allgather(out, 1, MPI_DOUBLE, many, 1, MPI_DOUBLE, grid);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, first_two, &two);
    if (rank < 2) {
        for (int i = 0; i < 2; i++) {
            MPI_Comm_create_group(MPI_COMM_WORLD, two, 4, &pair);
            MPI_Barrier(pair);
            MPI_Comm_free(&pair);
        }
    }
    MPI_Group_free(&two);
    MPI_Group_free(&world);
    MPI_Comm_group(grid, &world); /* a communicator that has no topology, though its parent has one */
    MPI_Group_incl(world, 2, first_two, &two);
    if (rank < 2) {
        MPI_Comm_create_group(grid, two, 5, &pair);
        MPI_Comm_free(&pair);
    }
    MPI_Group_free(&two);
    MPI_Group_free(&world);
    one_sided(MPI_COMM_WORLD);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&row);
    MPI_Comm_free(&copy);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
