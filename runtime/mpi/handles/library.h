/* What the library of the wrappers has one of: the way to the preloaded library, and what it keeps of the calling thread. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/api.h"

#define HANDLE(h) ((uint64_t)(uintptr_t)(h))

/* What most calls run and use lies together: a program may have filled the caches since the last one. */
#define OFTEN_RUN __attribute__((hot))
#define OFTEN __attribute__((section(".data.often")))
#define COLD __attribute__((cold, noinline))
#define APART __attribute__((noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline)) /* parts of what is run often */
#define OWN __thread __attribute__((tls_model("initial-exec")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define NOT_WRITTEN UINT64_C(1) /* like all odd ids of events */

extern agent_api agent;
extern bool may_only_count; /* from MPI_Init to MPI_Finalize, where threads do not call MPI at the same time */
extern bool mpi_is_over; /* after MPI_Finalize nothing may be asked */
extern OWN native_thread *own_thread; /* NULL before its first call, and at its end */

const recorder_api *recorder(void);
native_thread *agent_thread(void);

static inline uint64_t generation_now(void)
{
    return __atomic_load_n(agent.generation, __ATOMIC_RELAXED);
}

static inline uint32_t rate_level(void)
{
    return __atomic_load_n(&agent.rate->level, __ATOMIC_RELAXED);
}

/* Both clocks of the calling thread. */
ALWAYS_INLINE clock_moment read_clocks(native_thread *t)
{
    clock_moment now;
    if (UNLIKELY(!thread_clocks_reckon(&t->clocks, agent.clock_rules, &now))) {
        agent.ask_clocks(&t->clocks, &t->clock_asked_ns);
        now = (clock_moment){t->clocks.wall_ns, t->clocks.wall_ns - t->clocks.behind_ns};
    }
    return now;
}

/* From now on a flush shows that the thread is in the call. */
ALWAYS_INLINE void show_call(native_thread *t, uint32_t operation, uint32_t group, uint64_t seq, int64_t peer,
                             uint64_t enter_ns)
{
    t->call.operation = operation;
    t->call.group = group;
    t->call.seq = seq;
    t->call.peer = peer;
    __atomic_store_n(&t->call.enter_ns, enter_ns, __ATOMIC_RELEASE);
}

/* The thread is in no call any more. */
ALWAYS_INLINE void leave_call(native_thread *t)
{
    __atomic_store_n(&t->call.enter_ns, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&t->path, 0, __ATOMIC_RELAXED);
    t->depth = 0;
    call_history_fetch(&t->history);
}
