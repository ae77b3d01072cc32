/* Calls MPI by Fortran's names, as a compiler of Fortran would. */
#include <mpi.h>
#include <stdio.h>

void mpi_init_(MPI_Fint *error);
void mpi_finalize_(MPI_Fint *error);
void mpi_barrier_(MPI_Fint *comm, MPI_Fint *error);
void mpi_sendrecv_(void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                   MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);

int main(void)
{
    MPI_Fint error, status[sizeof(MPI_Status)], one = 1, tag = 5;
    double out = 3, in = 0;
    int rank, size;
    mpi_init_(&error);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), type = MPI_Type_c2f(MPI_DOUBLE);
    MPI_Fint left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < 7; i++) {
        mpi_barrier_(&comm, &error); /* here */
        mpi_sendrecv_(&out, &one, &type, &right, &tag, &in, &one, &type, &left, &tag, &comm, status, &error);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    PMPI_Barrier(MPI_COMM_WORLD); /* recorded all the same */
    printf("%g\n", in);
    mpi_finalize_(&error);
    return 0;
}
