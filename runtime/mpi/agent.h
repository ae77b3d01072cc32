/* What the preloaded library offers to the wrappers of one MPI, which are compiled against its header and loaded by it. */
#ifndef SCALANA_AGENT_H
#define SCALANA_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "call_rate.h"
#include "recorder_api.h"
#include "threads.h"

#define AGENT_VERSION 3u

typedef struct {
    uint32_t version;
    const recorder_api *recorder;
    native_thread *(*thread_self)(void);
    native_thread **(*thread_place)(void);
    const clock_rules *clock_rules;
    void (*ask_clocks)(clock_readings *own);
    /* Of a call whose site is not known, where the recorder itself does not tell paths. */
    call_site *(*unwind_call)(call_cache *cache, uintptr_t pc, uintptr_t sp, uintptr_t fp);
    total_amount *(*total_of)(native_thread *thread, uint32_t path, uint32_t operation, uint32_t group);
    void (*forget_totals)(native_thread *thread);
    const call_rate *rate;
    void (*rate_wrote)(uint64_t now_ns, uint64_t events);
    void (*rate_look)(uint64_t now_ns);
} agent_api;

/* A wrapper of the library for one MPI: by this name, that function. */
typedef struct {
    const char *name;
    void *function;
} agent_wrapper;

/* const agent_wrapper *(const agent_api *): in the wrappers' library. The array ends with a NULL. */
#define AGENT_WRAPPERS "scalana_mpi_wrappers"

#endif
