/* Where samples of native code come from. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    uint64_t time_ns;
    uint64_t cpu_ns; /* about how much CPU time it stands for: what the thread used since the sample before */
    uint32_t path;
} native_sample;

/* Called by the sampler thread alone. */
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
