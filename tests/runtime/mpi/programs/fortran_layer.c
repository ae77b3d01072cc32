/* A library like the one that implements Fortran's names in Open MPI: on top of the profiling interface. */
#include <mpi.h>
#include <stddef.h>

void mpi_init_(MPI_Fint *error)
{
    *error = PMPI_Init(NULL, NULL);
}

void mpi_finalize_(MPI_Fint *error)
{
    *error = PMPI_Finalize();
}

void mpi_barrier_(MPI_Fint *comm, MPI_Fint *error)
{
    *error = PMPI_Barrier(PMPI_Comm_f2c(*comm));
}

void mpi_sendrecv_(void *out, MPI_Fint *count, MPI_Fint *type, MPI_Fint *to, MPI_Fint *tag, void *in, MPI_Fint *in_count,
                   MPI_Fint *in_type, MPI_Fint *from, MPI_Fint *in_tag, MPI_Fint *comm, MPI_Fint *status, MPI_Fint *error)
{
    MPI_Status own;
    *error = PMPI_Sendrecv(out, *count, PMPI_Type_f2c(*type), *to, *tag, in, *in_count, PMPI_Type_f2c(*in_type), *from,
                           *in_tag, PMPI_Comm_f2c(*comm), &own);
    PMPI_Status_c2f(&own, status);
}
