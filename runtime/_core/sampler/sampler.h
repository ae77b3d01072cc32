/* The sampler: a thread of its own that looks at all other threads of the process, without signals and without the
 * interpreter's lock, and that writes out what is pending. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sampler/native.h"

/* From the next start on, samples all threads by their native code instead of their Python frames. */
void sampler_set_native(const sampler_native *source);
/* Starts the thread. `python`: sample Python threads by their frames; otherwise it only flushes and looks after threads
 * without Python frames. Returns 0, or an errno value. */
int sampler_start(double rate_hz, double flush_s, bool python);
/* Samples this often from the next tick on. */
void sampler_set_rate(double rate_hz);
/* Has what is pending written soon, where that was done last less than `after_ns` ago. False where it is longer ago: the
 * caller writes it now. */
bool sampler_flush_later(uint64_t after_ns);
/* Ends the thread after a last look at threads that are held. No-op when there is none. */
void sampler_stop(void);
/* A sample of a thread that another sampler has taken. */
void sampler_add(pid_t tid, uint32_t path, uint32_t state);
