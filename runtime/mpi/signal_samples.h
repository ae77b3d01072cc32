/* Snapshots of running threads by timers of their CPU time, where the kernel does not allow perf_event_open.
 *
 * A timer that counts CPU time ends only while its thread runs, so that sleeping and waiting calls are not interrupted; the
 * handler is installed with SA_RESTART for those that just begin. It copies registers and the top of the stack and does
 * nothing else. */
#ifndef SCALANA_SIGNAL_SAMPLES_H
#define SCALANA_SIGNAL_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SIGNAL_STACK 8192u

typedef struct {
    uint64_t time_ns;
    uintptr_t pc, sp, fp;
    size_t size;
    uint8_t stack[SIGNAL_STACK];
} signal_snapshot;

/* Finds a free real-time signal. False when there is none. */
bool signal_samples_prepare(uint64_t period_ns);
/* Gives a thread a timer, if it has none. */
void signal_samples_watch(pid_t tid);
/* The oldest snapshot of a thread that was not taken yet; NULL when there is none. Valid until the next call. */
const signal_snapshot *signal_samples_take(pid_t tid);
void signal_samples_forget(pid_t tid);
/* In the child after fork, which has none of the timers. */
void signal_samples_after_fork(void);

#endif
