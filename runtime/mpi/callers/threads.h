/* Threads that call MPI: the clocks they read, the call they are in, and the calls they made before. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "callers/clocks.h"
#include "callers/totals.h"
#include "unwind/paths.h"

typedef struct {
    uint32_t operation, group;
    uint64_t seq;
    int64_t peer;
    uint64_t enter_ns; /* 0: not in a call */
} current_call;

/* What every call needs comes first, on as few lines as can be. */
typedef struct native_thread {
    _Alignas(LINE_BYTES) uint64_t generation;
    unsigned depth;        /* calls within each other: the library's own use of MPI is not recorded */
    uint32_t path;         /* of the call that it is in, 0 outside; read by the sampler */
    clock_readings clocks; /* when it last entered or left a call */
    call_history history;
    current_call call;     /* read at flushes */
    uint64_t unwritten_ns, unwritten_cpu_ns; /* in calls since the last one that was written */
    uint64_t clock_asked_ns;
    thread_totals *totals; /* NULL: counted by the recorder */
    call_memory *memory;
    struct native_thread **known_at; /* where the wrappers keep it; cleared when the thread ends */
    pid_t tid;
    uint32_t index;        /* in the record */
} native_thread;

/* Of the calling thread; NULL when memory is short. */
native_thread *thread_self(void);
/* The recorder that sums of threads go to. */
void threads_use(const recorder_api *recorder);
/* At a flush: hands on what threads have counted. */
void threads_collect(void);
/* In the handler of a signal: path of the call that the calling thread is in; 0 if there is none. */
uint32_t thread_interrupted(uint64_t now_ns);
/* Path of the call that a thread is in, and was in already at `then_ns`; 0 if there is none. */
uint32_t thread_call_path(pid_t tid, uint64_t then_ns);
/* Calls `visit` for every thread that is in a call. */
void threads_in_calls(void (*visit)(const native_thread *thread, void *data), void *data);
void threads_after_fork(void);
