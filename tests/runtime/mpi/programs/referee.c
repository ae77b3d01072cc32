/* Counts and times calls of MPI, and writes both of each rank to $REFEREE.<rank>: linked into a program, it is called
   by it, and calls whatever comes next, the library or what is preloaded before it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    long calls;
    double seconds;
} tally;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define T MPI_Datatype
#define CALLS(X)                                                                                                      \
    X(Init, (int *a, char ***b), (a, b))                                                                              \
    X(Irecv, (void *a, int b, T c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))                  \
    X(Isend, (const void *a, int b, T c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))            \
    X(Issend, (const void *a, int b, T c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))           \
    X(Send, (const void *a, int b, T c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))                                \
    X(Ssend, (const void *a, int b, T c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))                               \
    X(Recv, (void *a, int b, T c, int d, int e, MPI_Comm f, MPI_Status *g), (a, b, c, d, e, f, g))                    \
    X(Sendrecv, (const void *a, int b, T c, int d, int e, void *f, int g, T h, int i, int j, MPI_Comm k, MPI_Status *l), \
      (a, b, c, d, e, f, g, h, i, j, k, l))                                                                           \
    X(Sendrecv_replace, (void *a, int b, T c, int d, int e, int f, int g, MPI_Comm h, MPI_Status *i),                 \
      (a, b, c, d, e, f, g, h, i))                                                                                    \
    X(Recv_init, (void *a, int b, T c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))              \
    X(Send_init, (const void *a, int b, T c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))        \
    X(Wait, (MPI_Request * a, MPI_Status *b), (a, b))                                                                 \
    X(Waitall, (int a, MPI_Request b[], MPI_Status c[]), (a, b, c))                                                   \
    X(Waitany, (int a, MPI_Request b[], int *c, MPI_Status *d), (a, b, c, d))                                         \
    X(Waitsome, (int a, MPI_Request b[], int *c, int d[], MPI_Status e[]), (a, b, c, d, e))                           \
    X(Testall, (int a, MPI_Request b[], int *c, MPI_Status d[]), (a, b, c, d))                                        \
    X(Request_get_status, (MPI_Request a, int *b, MPI_Status *c), (a, b, c))                                          \
    X(Probe, (int a, int b, MPI_Comm c, MPI_Status *d), (a, b, c, d))                                                 \
    X(Mprobe, (int a, int b, MPI_Comm c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))                             \
    X(Mrecv, (void *a, int b, T c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))                                   \
    X(Imrecv, (void *a, int b, T c, MPI_Message *d, MPI_Request *e), (a, b, c, d, e))                                 \
    X(Start, (MPI_Request * a), (a))                                                                                  \
    X(Startall, (int a, MPI_Request b[]), (a, b))                                                                     \
    X(Barrier, (MPI_Comm a), (a))                                                                                     \
    X(Ibarrier, (MPI_Comm a, MPI_Request *b), (a, b))                                                                 \
    X(Bcast, (void *a, int b, T c, int d, MPI_Comm e), (a, b, c, d, e))                                               \
    X(Gather, (const void *a, int b, T c, void *d, int e, T f, int g, MPI_Comm h), (a, b, c, d, e, f, g, h))          \
    X(Gatherv, (const void *a, int b, T c, void *d, const int e[], const int f[], T g, int h, MPI_Comm i),            \
      (a, b, c, d, e, f, g, h, i))                                                                                    \
    X(Scatter, (const void *a, int b, T c, void *d, int e, T f, int g, MPI_Comm h), (a, b, c, d, e, f, g, h))         \
    X(Scatterv, (const void *a, const int b[], const int c[], T d, void *e, int f, T g, int h, MPI_Comm i),           \
      (a, b, c, d, e, f, g, h, i))                                                                                    \
    X(Allgather, (const void *a, int b, T c, void *d, int e, T f, MPI_Comm g), (a, b, c, d, e, f, g))                 \
    X(Allgatherv, (const void *a, int b, T c, void *d, const int e[], const int f[], T g, MPI_Comm h),                \
      (a, b, c, d, e, f, g, h))                                                                                       \
    X(Alltoall, (const void *a, int b, T c, void *d, int e, T f, MPI_Comm g), (a, b, c, d, e, f, g))                  \
    X(Alltoallv, (const void *a, const int b[], const int c[], T d, void *e, const int f[], const int g[], T h, MPI_Comm i), \
      (a, b, c, d, e, f, g, h, i))                                                                                    \
    X(Allreduce, (const void *a, void *b, int c, T d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))                      \
    X(Iallreduce, (const void *a, void *b, int c, T d, MPI_Op e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))  \
    X(Reduce, (const void *a, void *b, int c, T d, MPI_Op e, int f, MPI_Comm g), (a, b, c, d, e, f, g))               \
    X(Reduce_scatter, (const void *a, void *b, const int c[], T d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))         \
    X(Reduce_scatter_block, (const void *a, void *b, int c, T d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))           \
    X(Scan, (const void *a, void *b, int c, T d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))                           \
    X(Exscan, (const void *a, void *b, int c, T d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))                         \
    X(Neighbor_allgather, (const void *a, int b, T c, void *d, int e, T f, MPI_Comm g), (a, b, c, d, e, f, g))        \
    X(Comm_dup, (MPI_Comm a, MPI_Comm *b), (a, b))                                                                    \
    X(Comm_split, (MPI_Comm a, int b, int c, MPI_Comm *d), (a, b, c, d))                                              \
    X(Comm_create_group, (MPI_Comm a, MPI_Group b, int c, MPI_Comm *d), (a, b, c, d))                                 \
    X(Cart_create, (MPI_Comm a, int b, const int c[], const int d[], int e, MPI_Comm *f), (a, b, c, d, e, f))         \
    X(Comm_free, (MPI_Comm * a), (a))                                                                                 \
    X(Win_allocate, (MPI_Aint a, int b, MPI_Info c, MPI_Comm d, void *e, MPI_Win *f), (a, b, c, d, e, f))             \
    X(Win_free, (MPI_Win * a), (a))                                                                                   \
    X(Win_fence, (int a, MPI_Win b), (a, b))                                                                          \
    X(Win_lock, (int a, int b, int c, MPI_Win d), (a, b, c, d))                                                       \
    X(Win_unlock, (int a, MPI_Win b), (a, b))                                                                         \
    X(Put, (const void *a, int b, T c, int d, MPI_Aint e, int f, T g, MPI_Win h), (a, b, c, d, e, f, g, h))           \
    X(Get, (void *a, int b, T c, int d, MPI_Aint e, int f, T g, MPI_Win h), (a, b, c, d, e, f, g, h))

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define MORE(X)                                                                                                       \
    X(Isendrecv, (const void *a, int b, T c, int d, int e, void *f, int g, T h, int i, int j, MPI_Comm k, MPI_Request *l), \
      (a, b, c, d, e, f, g, h, i, j, k, l))                                                                           \
    X(Isendrecv_replace, (void *a, int b, T c, int d, int e, int f, int g, MPI_Comm h, MPI_Request *i),               \
      (a, b, c, d, e, f, g, h, i))
#else
#define MORE(X)
#endif

#define DEFINE(name, parameters, arguments)                                                                           \
    static tally of_##name;                                                                                           \
    int MPI_##name parameters                                                                                         \
    {                                                                                                                 \
        static int(*next) parameters;                                                                                 \
        if (!next) {                                                                                                  \
            *(void **)&next = dlsym(RTLD_NEXT, "MPI_" #name);                                                         \
        }                                                                                                             \
        double since = now();                                                                                         \
        int result = next arguments;                                                                                  \
        of_##name.seconds += now() - since;                                                                           \
        of_##name.calls++;                                                                                            \
        return result;                                                                                                \
    }
CALLS(DEFINE)
MORE(DEFINE)

int MPI_Finalize(void)
{
    char path[4096];
    int rank;
    int (*next)(void);
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Finalize");
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", getenv("REFEREE"), rank);
    FILE *file = fopen(path, "w");
#define TELL(name, parameters, arguments) fprintf(file, "MPI_%s %ld %.9f\n", #name, of_##name.calls, of_##name.seconds);
    CALLS(TELL)
    MORE(TELL)
    fclose(file);
    return next();
}
