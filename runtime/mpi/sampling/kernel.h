/* Samples that the kernel takes of a running thread: it copies registers and the top of the stack into a ring
 * (perf_event_open(2)), and nothing of the program's is run for it.
 *
 * Each costs an interrupt of its own, and each switch to and from the thread programs the core's timer anew: on a virtual
 * machine, which leaves that to its host, four microseconds. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sampling/raw_sample.h"

#define KERNEL_RING_PAGES 32u /* power of two */

typedef struct {
    int fd;
    void *ring; /* NULL: there is none */
    uint64_t period_ns;
} kernel_ring;

/* Whether the kernel allows it. */
bool kernel_samples_allowed(uint64_t period_ns);
/* Begins to sample a thread. False where the kernel does not allow that. */
bool kernel_ring_open(kernel_ring *ring, pid_t tid, uint64_t period_ns, uint32_t stack_bytes);
void kernel_ring_close(kernel_ring *ring);
/* The oldest sample that was not read. False when there is none. */
bool kernel_ring_next(kernel_ring *ring, raw_sample *sample);
