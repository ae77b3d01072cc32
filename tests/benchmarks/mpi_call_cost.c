/* What a recorded call takes longer than the library's own, with caches that are full of other things.
 *
 *     mpi_call_cost ROUNDS MEGABYTES
 *
 * Recorded and plain rounds take turns. Before each call, so much memory is read. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

enum { IRECV, ISEND, WAITALL, ALLREDUCE, OPERATIONS };
static const char *const names[OPERATIONS] = {"MPI_Irecv", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce"};
static double *others, in, out, sum;
static size_t count;
static uint64_t *ticks[2][OPERATIONS];

static void fill_caches(void)
{
    for (size_t i = 0; i < count; i += 8) {
        sum += others[i];
    }
}

#define TIMED(which, operation, call)                                                                                  \
    do {                                                                                                               \
        fill_caches();                                                                                                 \
        _mm_lfence();                                                                                                  \
        uint64_t begin = __rdtsc();                                                                                    \
        _mm_lfence();                                                                                                  \
        call;                                                                                                          \
        _mm_lfence();                                                                                                  \
        ticks[which][operation][number] = __rdtsc() - begin;                                                           \
    } while (0)

/* The library's own, by address: what a program imports by these names is recorded, too. */
static __typeof__(PMPI_Irecv) *own_irecv;
static __typeof__(PMPI_Isend) *own_isend;
static __typeof__(PMPI_Waitall) *own_waitall;
static __typeof__(PMPI_Allreduce) *own_allreduce;

static void find_own(void)
{
    *(void **)&own_irecv = dlsym(RTLD_DEFAULT, "PMPI_Irecv");
    *(void **)&own_isend = dlsym(RTLD_DEFAULT, "PMPI_Isend");
    *(void **)&own_waitall = dlsym(RTLD_DEFAULT, "PMPI_Waitall");
    *(void **)&own_allreduce = dlsym(RTLD_DEFAULT, "PMPI_Allreduce");
}

/* To oneself: nobody waits. */
#define ROUND(which, irecv, isend, waitall, allreduce)                                                                 \
    do {                                                                                                               \
        MPI_Request both[2];                                                                                           \
        TIMED(which, IRECV, irecv(&in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &both[0]));                                 \
        TIMED(which, ISEND, isend(&out, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &both[1]));                                \
        TIMED(which, WAITALL, waitall(2, both, MPI_STATUSES_IGNORE));                                                  \
        TIMED(which, ALLREDUCE, allreduce(&in, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF));                          \
    } while (0)

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    size_t filling = argc > 2 ? strtoul(argv[2], NULL, 10) * (1u << 20) / sizeof *others : 0;
    MPI_Init(&argc, &argv);
    find_own();
    others = calloc(filling + 1, sizeof *others);
    for (int which = 0; which < 2; which++) {
        for (int operation = 0; operation < OPERATIONS; operation++) {
            ticks[which][operation] = calloc(rounds, sizeof(uint64_t));
        }
    }
    for (size_t i = 0; i < 20000 + 2 * rounds; i++) {
        count = i < 20000 ? 0 : filling; /* at first, so many that no more are written */
        size_t number = i < 20000 ? 0 : (i - 20000) / 2;
        if (i % 2) {
            ROUND(0, own_irecv, own_isend, own_waitall, own_allreduce);
        } else {
            ROUND(1, MPI_Irecv, MPI_Isend, MPI_Waitall, MPI_Allreduce);
        }
    }
    double begin = MPI_Wtime();
    uint64_t first = __rdtsc();
    while (MPI_Wtime() - begin < 0.02) {
    }
    double tick_ns = (MPI_Wtime() - begin) * 1e9 / (double)(__rdtsc() - first);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        double ns[2];
        for (int which = 0; which < 2; which++) {
            qsort(ticks[which][operation], rounds, sizeof(uint64_t), by_value);
            ns[which] = (double)ticks[which][operation][rounds / 5] * tick_ns; /* of those that nothing else disturbed */
        }
        printf("%-14s %4.0f ns, recorded %4.0f ns: %3.0f more\n", names[operation], ns[0], ns[1], ns[1] - ns[0]);
    }
    MPI_Finalize();
    return sum < 0;
}
