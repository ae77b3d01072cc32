/* What waits and probes of the calling thread keep from one call to another. */
#pragma once

#include "calls/call.h"
#include "handles/requests.h"

/* Handles and statuses of the wait that a thread is in, and a probe that no receive has followed yet. */
typedef struct {
    MPI_Request *handles;
    MPI_Status *statuses;
    uint64_t *events; /* up to two of each */
    request **taken;  /* out of the table, as what waits for them completes them all; NULL where it is not known */
    int capacity;
    bool probed;
    call_state probe;
} scratch_space;

extern OWN scratch_space *scratch;
/* With room for so many requests; NULL when memory is short. */
scratch_space *own_scratch(int count);
