/* What the modules of the sampler share: the threads that it looks at, and how. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/memory.h"
#include "frames/types.h"
#include "sampler/native.h"
#include "threads/state.h"

#define NS_PER_MS UINT64_C(1000000)
#define NATIVE_SCAN_NS (100 * NS_PER_MS)
#define MOST_PYTHON_THREADS 1024

/* A thread that is looked at. Its clocks are cumulative since the thread began. */
typedef struct {
    pid_t tid;
    bool python;    /* has had a Python thread state */
    bool listed;    /* has one now */
    bool ignored;   /* one of scalana's own */
    bool unsettled; /* where it is is not known: read its stack even if it has not run */
    bool held;      /* has not run since the sample that says where it is */
    bool indexed;
    bool had_core;  /* next to all the time from the tick before to the latest, as native code */
    uint32_t index; /* in the record */
    uint32_t path, state;
    uint64_t pass;        /* latest scan of the kernel's list that saw it */
    uint64_t walk;        /* latest walk along the interpreter's list that saw it */
    python_thread in_python;
    uint64_t cpu_ns;      /* at the latest look at which it had run */
    uint64_t look_ns;     /* time of that look */
    uint64_t held_ns;     /* latest look at which it had not */
    uint64_t unused_ns;   /* time it has not run since the kernel was asked how long it waited for a core */
    uint64_t reported_cpu_ns, reported_wait_ns; /* as in its samples so far */
    /* Of native code: at the latest look, and how much of what it has not run until then may be a wait for a core. */
    uint64_t tick_ns, tick_cpu_ns, tick_wait_ns, unexplained_ns;
    uint64_t wait_asked_ns; /* time of the look at which the kernel was asked for the wait */
    thread_files files;
    path_cache cache;
} watched;

typedef struct {
    watched **rows;
    size_t count, capacity;
    uint64_t pass, walk, ticks;
    uint64_t next_walk_ns;
    uint64_t made; /* count of thread states at the latest walk */
    uint64_t listed; /* threads that the kernel listed when its list was last looked through; 0: never */
    bool any_gone;   /* one of them has ended since */
    uint64_t changed_ns; /* when threads had begun or ended last */
    bool first_pass;
    bool steady; /* no thread of native code has begun or ended a rest since the last tick */
    /* Of the time since the last tick a thread of native code ran for more than half; one waited for a core all besides. */
    bool half_used, lacks_core;
    unsigned steady_ticks; /* so many in a row since their length changed */
    unsigned tick_periods; /* their length, in periods of native samples */
    enum memory_access access;
    frame_stack stack, earlier;
    python_thread threads[MOST_PYTHON_THREADS];
} sampler_state;

/* NULL when there is no sampler; both are used under the sampler's lock. */
extern sampler_state *sampling;
extern const sampler_native *native_source;

/* Threads of the sampler's own: that which looks, and that which writes to disk for it. */
extern atomic_int sampler_tid, flusher_tid;
bool sampler_is_own(pid_t tid);
