/* How many bytes calls are about. */
#pragma once

#include <mpi.h>
#include <stdint.h>

#include "handles/library.h"

/* What the handle of a datatype stands for may change. */
void datatype_gone(void);

/* Sizes of datatypes that were asked for of late. */
#define RECENT_SIZE_BITS 3
typedef struct {
    uint64_t changes; /* of what handles stand for, when these were noted */
    struct {
        uint64_t handle;
        uint64_t bytes;
    } recent[1u << RECENT_SIZE_BITS];
} recent_sizes;

extern __thread recent_sizes sizes __attribute__((tls_model("initial-exec")));
extern _Atomic uint64_t type_changes;

uint64_t size_asked(MPI_Datatype type);

static inline unsigned size_place(MPI_Datatype type)
{
    return (unsigned)(HANDLE(type) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - RECENT_SIZE_BITS));
}

/* Bytes of so many of a datatype. */
static inline uint64_t volume(int64_t count, MPI_Datatype type)
{
    if (count <= 0 || type == MPI_DATATYPE_NULL) {
        return 0;
    }
    unsigned place = size_place(type);
    bool known = sizes.recent[place].handle == HANDLE(type) &&
                 sizes.changes == __atomic_load_n(&type_changes, __ATOMIC_RELAXED);
    return (uint64_t)count * (known ? sizes.recent[place].bytes : size_asked(type));
}

uint64_t volumes(const int *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm);
uint64_t large_volumes(const MPI_Count *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm);
