/* Threads that call MPI: the clocks they read, the call they are in, and the calls they made before. */
#ifndef SCALANA_THREADS_H
#define SCALANA_THREADS_H

#include <stdint.h>
#include <sys/types.h>

#include "native_paths.h"
#include "thread_totals.h"

typedef struct {
    uint32_t operation, group;
    uint64_t seq;
    int64_t peer;
    uint64_t enter_ns; /* 0: not in a call */
} current_call;

typedef struct native_thread {
    pid_t tid;
    uint32_t index; /* in the record */
    uint64_t generation;
    call_cache *calls;
    thread_totals *totals; /* NULL: counted by the recorder */
    unsigned depth;       /* calls within each other: the library's own use of MPI is not recorded */
    uint32_t path;        /* of the call that it is in, 0 outside; read by the sampler */
    current_call call;    /* read at flushes */
    uint64_t wall_ns, cpu_ns; /* when it last entered or left a call */
    uint64_t read_ns;         /* when the CPU clock was last asked, not reckoned */
    uint64_t anchor_ticks, anchor_ns; /* the processor's counter and the wall clock at one moment */
} native_thread;

/* Of the calling thread; NULL when memory is short. */
native_thread *thread_self(void);
/* The recorder that sums of threads go to. */
void threads_use(const recorder_api *recorder);
/* At a flush: hands on what threads have counted. */
void threads_collect(void);
/* Path of the call that a thread is in, and was in already at `then_ns`; 0 if there is none. */
uint32_t thread_call_path(pid_t tid, uint64_t then_ns);
/* Calls `visit` for every thread that is in a call. */
void threads_in_calls(void (*visit)(const native_thread *thread, void *data), void *data);
/* Both clocks. The CPU clock is a system call, which is spared where so little time has passed that the thread can
 * hardly have lost its core: it is then reckoned from the wall clock. */
void thread_clocks(native_thread *thread, uint64_t *wall_ns, uint64_t *cpu_ns);
void threads_after_fork(void);

#endif
