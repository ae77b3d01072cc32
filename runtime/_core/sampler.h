/* The sampler: a thread of its own that looks at all other threads of the process, without signals and without the
 * interpreter's lock, and that writes out what is pending. */
#ifndef SCALANA_SAMPLER_H
#define SCALANA_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    uint64_t time_ns;
    uint64_t cpu_ns; /* about how much CPU time it stands for: what the thread used since the sample before */
    uint32_t path;
} native_sample;

/* Where samples of native code come from. Called by the sampler thread alone. */
typedef struct {
    /* What a thread did since the last call, oldest first. Returns how many, at most `capacity`. */
    size_t (*take)(pid_t tid, native_sample *samples, size_t capacity);
    /* Path of a thread that does not run; 0 when that cannot be told. */
    uint32_t (*path_at_rest)(pid_t tid);
    /* The thread has ended. */
    void (*forget)(pid_t tid);
    /* How many periods may pass before samples are taken, lest some are lost. */
    unsigned (*most_periods)(void);
    uint64_t period_ns; /* CPU time from one sample of a thread to the next, nearly */
} sampler_native;

/* From the next start on, samples all threads by their native code instead of their Python frames. */
void sampler_set_native(const sampler_native *source);
/* Starts the thread. `python`: sample Python threads by their frames; otherwise it only flushes and looks after threads
 * without Python frames. Returns 0, or an errno value. */
int sampler_start(double rate_hz, double flush_s, bool python);
/* Samples this often from the next tick on. */
void sampler_set_rate(double rate_hz);
/* Has what is pending written, as soon as that was done last `after_ns` ago. False when it is that long ago: the caller
 * writes it now. */
bool sampler_flush_later(uint64_t after_ns);
/* Ends the thread after a last look at threads that are held. No-op when there is none. */
void sampler_stop(void);
/* A sample of a thread that another sampler has taken. */
void sampler_add(pid_t tid, uint32_t path, uint32_t state);

#endif
