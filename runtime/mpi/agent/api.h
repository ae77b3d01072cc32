/* What the preloaded library offers to the wrappers of one MPI, which are compiled against its header and loaded by it. */
#ifndef SCALANA_AGENT_H
#define SCALANA_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "callers/rate.h"
#include "callers/threads.h"
#include "recorder/api.h"

#define AGENT_VERSION 6u

/* What every call needs comes first. */
typedef struct {
    const clock_rules *clock_rules;
    const call_rate *rate;
    const _Atomic uint64_t *generation; /* of the recorder */
    void (*ask_clocks)(clock_readings *own, uint64_t *asked_ns);
    /* Of a call from another place than the expected one, where the recorder itself does not tell paths. */
    call_site *(*site_of)(call_memory *memory, uintptr_t pc, uintptr_t sp, uintptr_t fp);
    total_amount *(*total_of)(native_thread *thread, uint32_t path, uint32_t operation, uint32_t group);
    void (*rate_wrote)(uint64_t now_ns, uint64_t events);
    void (*rate_look)(uint64_t now_ns);
    const recorder_api *recorder;
    native_thread *(*thread_self)(void);
    void (*forget_totals)(native_thread *thread);
    /* What the launcher says of this process, before MPI can: its rank, and how many there are. False if it does not. */
    bool (*launched_as)(int *rank, int *size);
    uint32_t version;
} agent_api;

/* A wrapper of the library for one MPI: by this name, that function. */
typedef struct {
    const char *name;
    void *function;
} agent_wrapper;

/* const agent_wrapper *(const agent_api *): in the wrappers' library. The array ends with a NULL. */
#define AGENT_WRAPPERS "scalana_mpi_wrappers"

#endif
