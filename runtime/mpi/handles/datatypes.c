#include "handles/datatypes.h"

#include <string.h>

#include "handles/communicators.h"

OWN recent_sizes sizes;
OFTEN _Atomic uint64_t type_changes = 1;

void datatype_gone(void)
{
    type_changes++;
}

APART uint64_t size_asked(MPI_Datatype type)
{
    int size = 0;
    uint64_t changes = __atomic_load_n(&type_changes, __ATOMIC_RELAXED);
    unsigned place = size_place(type);
    PMPI_Type_size(type, &size);
    if (sizes.changes != changes) {
        memset(&sizes, 0, sizeof sizes);
        sizes.changes = changes;
    }
    sizes.recent[place].handle = HANDLE(type);
    sizes.recent[place].bytes = size > 0 ? (uint64_t)size : 0;
    return sizes.recent[place].bytes;
}

/* Of counts that are `int`, or MPI_Count where `large`. */
static uint64_t volumes_of(const void *counts, bool large, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    communicator *c = communicator_of(comm);
    uint64_t sum = 0;
    int64_t elements = 0;
    for (int i = 0; c && counts && i < c->size; i++) {
        int64_t count = large ? (int64_t)((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
        if (types) {
            sum += volume(count, types[i]);
        } else {
            elements += count;
        }
    }
    return types ? sum : volume(elements, type);
}

uint64_t volumes(const int *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    return volumes_of(counts, false, type, types, comm);
}

uint64_t large_volumes(const MPI_Count *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    return volumes_of(counts, true, type, types, comm);
}
