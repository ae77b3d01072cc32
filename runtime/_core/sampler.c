#include "sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "clocks.h"
#include "recorder.h"

static pthread_t thread;
static atomic_bool running, stopping;
static uint64_t period_ns, flush_ns;

static void *sampler_main(void *unused)
{
    (void)unused;
    uint64_t next_flush = clock_wall_ns() + flush_ns;
    while (!atomic_load(&stopping)) {
        struct timespec t = {0, 5000000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
        if (clock_wall_ns() >= next_flush || recorder_is_full()) {
            recorder_flush();
            next_flush = clock_wall_ns() + flush_ns;
        }
    }
    return NULL;
}

int sampler_start(double rate_hz, double flush_s, bool python)
{
    (void)python;
    period_ns = rate_hz > 0 ? (uint64_t)(1e9 / rate_hz) : 0;
    flush_ns = (uint64_t)(flush_s * 1e9);
    atomic_store(&stopping, false);
    int error = pthread_create(&thread, NULL, sampler_main, NULL);
    if (error == 0) {
        atomic_store(&running, true);
    }
    return error;
}

void sampler_stop(void)
{
    if (atomic_exchange(&running, false)) {
        atomic_store(&stopping, true);
        pthread_join(thread, NULL);
    }
}

void sampler_add(pid_t tid, uint32_t path, uint32_t state)
{
    recorder_sample(recorder_thread(tid, 0), clock_wall_ns(), path, 0, 0, state);
}
