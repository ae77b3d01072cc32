/* Samples by timers of CPU time: a signal copies the registers and the top of the stack of the thread that it interrupts.
 *
 * A timer that counts a thread's CPU time is looked at in the interrupt by which the kernel keeps time anyway, and costs no
 * other; nor does it cost anything when threads are switched. Since Linux 5.9 (x86) its signal is made when the thread is
 * about to go on with its own code, so that no system call is ever cut short by it; before, those that just began could be.
 *
 * The signal is SIGURG, which does nothing where nobody asked for it, such as in a program that is started while one is
 * pending. Cores keep time together, so that ranks which meet often are interrupted
 * together, and wait for each other's samples but once. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sampling/raw_sample.h"

#define TIMER_RING_BYTES (512u << 10)

typedef struct timer_ring timer_ring;

/* Asks how often the kernel keeps time. To be called before all else. */
void timer_samples_look_at_clock(void);
/* How far apart, at least, the signals of a timer are that ends after so much CPU time. */
uint64_t timer_samples_apart(uint64_t period_ns);
/* Whether samples this far apart can be had without any risk for the program. */
bool timer_samples_are_gentle(uint64_t period_ns);
/* Takes the signal. `interrupted` says in the handler in which recorded call the calling thread is. False when
 * the signal is not free. */
bool timer_samples_prepare(uint32_t (*interrupted)(uint64_t now_ns));
/* Whether the program has left the signal to us. */
bool timer_samples_intact(void);
/* Whether a thread blocks the signal. */
bool timer_samples_blocked(pid_t tid);

/* Begins to sample a thread, each time that it has used so much CPU time, or at the next interrupt of its core's clock. NULL
 * where there are no more timers. */
timer_ring *timer_ring_open(pid_t tid, uint64_t period_ns, uint32_t stack_bytes);
void timer_ring_close(timer_ring *ring);
/* Whether the thread was seen on a stack that is not its own, which may be too small for a signal. */
bool timer_ring_is_foreign(const timer_ring *ring);
void timer_ring_set_period(timer_ring *ring, uint64_t period_ns);
void timer_ring_set_stack(timer_ring *ring, uint32_t stack_bytes);
/* The oldest sample that was not read. False when there is none. */
bool timer_ring_next(timer_ring *ring, raw_sample *sample);
/* In the child after fork, which has none of the timers. */
void timer_samples_after_fork(void);
