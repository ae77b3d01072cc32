/* Clocks that cannot fail in a way that matters here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) {
        return 0;
    }
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread. */
static inline uint64_t clock_own_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* CPU clock of a thread of this process by its kernel id. Unlike pthread_getcpuclockid it touches no memory of the
 * thread, so that it may be gone: the clock then fails with EINVAL. Layout: linux/posix-timers.h. */
static inline clockid_t clock_of_thread(pid_t tid)
{
    return (clockid_t)((~(unsigned int)tid << 3) | 6u);
}

/* False when there is no such thread. */
static inline bool clock_thread_cpu_ns(pid_t tid, uint64_t *ns)
{
    struct timespec t;
    if (clock_gettime(clock_of_thread(tid), &t) != 0) {
        return false;
    }
    *ns = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    return true;
}
