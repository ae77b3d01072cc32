/* A tool that counts calls by the profiling interface of MPI, and writes the counts of each rank to $COUNTS.<rank>. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

#define CALLS(X)                                                                                                      \
    X(Irecv, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))       \
    X(Isend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g)) \
    X(Issend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g),                       \
      (a, b, c, d, e, f, g))                                                                                          \
    X(Send, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))                     \
    X(Ssend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))                    \
    X(Recv, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Status *g), (a, b, c, d, e, f, g))         \
    X(Wait, (MPI_Request * a, MPI_Status *b), (a, b))                                                                 \
    X(Waitall, (int a, MPI_Request b[], MPI_Status c[]), (a, b, c))                                                   \
    X(Waitany, (int a, MPI_Request b[], int *c, MPI_Status *d), (a, b, c, d))                                         \
    X(Waitsome, (int a, MPI_Request b[], int *c, int d[], MPI_Status e[]), (a, b, c, d, e))                           \
    X(Testall, (int a, MPI_Request b[], int *c, MPI_Status d[]), (a, b, c, d))                                        \
    X(Probe, (int a, int b, MPI_Comm c, MPI_Status *d), (a, b, c, d))                                                 \
    X(Mprobe, (int a, int b, MPI_Comm c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))                             \
    X(Mrecv, (void *a, int b, MPI_Datatype c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))                        \
    X(Imrecv, (void *a, int b, MPI_Datatype c, MPI_Message *d, MPI_Request *e), (a, b, c, d, e))                      \
    X(Start, (MPI_Request * a), (a))                                                                                  \
    X(Startall, (int a, MPI_Request b[]), (a, b))                                                                     \
    X(Barrier, (MPI_Comm a), (a))                                                                                     \
    X(Ibarrier, (MPI_Comm a, MPI_Request *b), (a, b))                                                                 \
    X(Bcast, (void *a, int b, MPI_Datatype c, int d, MPI_Comm e), (a, b, c, d, e))                                    \
    X(Allreduce, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))           \
    X(Reduce, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, int f, MPI_Comm g), (a, b, c, d, e, f, g))    \
    X(Scan, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))                \
    X(Comm_dup, (MPI_Comm a, MPI_Comm *b), (a, b))                                                                    \
    X(Comm_split, (MPI_Comm a, int b, int c, MPI_Comm *d), (a, b, c, d))                                              \
    X(Comm_create_group, (MPI_Comm a, MPI_Group b, int c, MPI_Comm *d), (a, b, c, d))                                 \
    X(Comm_free, (MPI_Comm * a), (a))                                                                                 \
    X(Win_fence, (int a, MPI_Win b), (a, b))                                                                          \
    X(Win_lock, (int a, int b, int c, MPI_Win d), (a, b, c, d))

#define DEFINE(name, parameters, arguments)                                                                           \
    static int count_##name;                                                                                          \
    int MPI_##name parameters                                                                                         \
    {                                                                                                                 \
        count_##name++;                                                                                               \
        return PMPI_##name arguments;                                                                                 \
    }
CALLS(DEFINE)

int MPI_Finalize(void)
{
    char path[4096];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", getenv("COUNTS"), rank);
    FILE *file = fopen(path, "w");
#define TELL(name, parameters, arguments) fprintf(file, "MPI_%s %d\n", #name, count_##name);
    CALLS(TELL)
    fclose(file);
    return PMPI_Finalize();
}
