/* The sampler's thread, and the one that writes to disk for it: when they run, how they start and stop. */
#include "sampler/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clocks.h"
#include "base/memory.h"
#include "recorder/recorder.h"
#include "recorder/thinning.h"
#include "sampler/look.h"
#include "sampler/moments.h"
#include "sampler/passes.h"
#include "sampler/state.h"
#include "threads/cores.h"
#include "threads/state.h"

#define THREAD_STACK ((size_t)512 << 10)
#define LEAST_SLACK_NS 1000UL
/* What is written later is written so much later at least: who has more to write by then does it, and nobody wakes up. */
#define LATER_NS (20 * NS_PER_MS)

/* Samples of native code have times of their own, and waking up costs most of all: fewer ticks do while every thread
 * runs, or rests, all through. After so many steady ticks, or one of the shortest, the next are twice as long; after
 * another one half as long. */
#define COMING_AND_GOING_NS (500 * NS_PER_MS) /* after one did, threads may: short ones are found by many ticks alone */
#define STEADY_TICKS 16u
#define SHORTEST_TICK 2u /* periods of native samples */
#define LONGEST_TICK 32u /* and twice that where all run for less than half of the time, as they have no core */

/* Guards the state against sampler_add; the sampler thread is its one other user. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake_flusher;
static bool flush_wanted;
static uint64_t flush_due_ns, flushed_ns; /* when the next flush is due, 0 for none of its own; when the latest began */
static uint64_t flusher_wakes_ns; /* when the thread looks again what is due */

static pthread_t sampler_thread, flusher_thread;
static atomic_bool started, stopping;
static bool sample_python;
static _Atomic uint64_t period_ns;
static uint64_t flush_ns;

/* ---- the threads ---- */

static void ask_for_flush(void)
{
    pthread_mutex_lock(&wake_lock);
    flush_wanted = true;
    pthread_cond_signal(&wake_flusher);
    pthread_mutex_unlock(&wake_lock);
}

/* wake_lock is held: before the flush that follows, no other need be made. */
static void begin_flush(uint64_t now)
{
    flush_wanted = false;
    flush_due_ns = 0;
    flushed_ns = now;
}

bool sampler_flush_later(uint64_t after_ns)
{
    uint64_t now = clock_wall_ns();
    pthread_mutex_lock(&wake_lock);
    bool later = now < flushed_ns + after_ns && atomic_load(&started);
    if (!later) {
        begin_flush(now);
    } else {
        uint64_t due = now + (after_ns > LATER_NS ? after_ns : LATER_NS);
        flush_due_ns = flush_due_ns == 0 || flush_due_ns > due ? due : flush_due_ns;
        if (flusher_wakes_ns > flush_due_ns) {
            pthread_cond_signal(&wake_flusher);
        }
    }
    pthread_mutex_unlock(&wake_lock);
    return later;
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / UINT64_C(1000000000)), (long)(ns % UINT64_C(1000000000))};
}

/* Writes to disk on a thread of its own, so that a slow disk does not blind the sampler. */
static void *flusher_main(void *unused)
{
    (void)unused;
    atomic_store(&flusher_tid, (int)syscall(SYS_gettid));
    prctl(PR_SET_NAME, "scalana-write");
    pthread_mutex_lock(&wake_lock);
    while (!atomic_load(&stopping)) {
        uint64_t now = clock_wall_ns();
        if (flush_wanted || (flush_due_ns != 0 && now >= flush_due_ns)) {
            begin_flush(now);
            pthread_mutex_unlock(&wake_lock);
            recorder_flush();
            pthread_mutex_lock(&wake_lock);
        } else if (flush_due_ns != 0) {
            struct timespec due = time_of(flush_due_ns);
            flusher_wakes_ns = flush_due_ns;
            pthread_cond_timedwait(&wake_flusher, &wake_lock, &due);
            flusher_wakes_ns = 0;
        } else {
            flusher_wakes_ns = UINT64_MAX;
            pthread_cond_wait(&wake_flusher, &wake_lock);
            flusher_wakes_ns = 0;
        }
    }
    pthread_mutex_unlock(&wake_lock);
    return NULL;
}

static void sleep_until(uint64_t time_ns)
{
    struct timespec t = time_of(time_ns);
    while (!atomic_load(&stopping) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Periods of native samples from one tick to the next. */
static unsigned periods_at_once(uint64_t now)
{
    if (now < sampling->changed_ns + COMING_AND_GOING_NS) {
        return 1;
    }
    unsigned periods = sampling->tick_periods, most = native_source->most_periods();
    sampling->steady_ticks = sampling->steady ? sampling->steady_ticks + 1 : 0;
    if (!sampling->steady) {
        periods /= 2;
    } else if (periods <= SHORTEST_TICK || sampling->steady_ticks >= STEADY_TICKS) {
        periods *= 2;
        sampling->steady_ticks = 0;
    }
    unsigned longest = sampling->lacks_core && !sampling->half_used ? 2 * LONGEST_TICK : LONGEST_TICK;
    periods = periods < SHORTEST_TICK ? SHORTEST_TICK : periods > longest ? longest : periods;
    sampling->tick_periods = periods;
    return periods < most ? periods : most;
}

static bool any_has_core(void)
{
    bool any = false;
    for (size_t i = 0; i < sampling->count; i++) {
        any = any || sampling->rows[i]->had_core;
    }
    return any;
}

static void *sampler_main(void *unused)
{
    (void)unused;
    atomic_store(&sampler_tid, (int)syscall(SYS_gettid));
    prctl(PR_SET_NAME, "scalana-sample");
    prctl(PR_SET_TIMERSLACK, LEAST_SLACK_NS, 0UL, 0UL, 0UL);
    const uint32_t process = (uint32_t)getpid();
    uint64_t now = clock_wall_ns(), next_scan = now, next_flush = now + flush_ns;
    while (!atomic_load(&stopping)) {
        uint64_t step = NATIVE_SCAN_NS;
        if (sample_python || native_source) {
            step = atomic_load(&period_ns) * (sample_python ? 1 : periods_at_once(now));
        }
        uint64_t skip = (UINT64_C(1) << recorder_level()) - 1;
        pthread_mutex_lock(&table_lock);
        if ((sampling->ticks++ & skip) == 0) {
            bool scan = now >= next_scan;
            if (sample_python) {
                sampler_pass_over_python(now, scan);
            }
            if (native_source) {
                sampler_pass_over_known();
            }
            if (scan || native_source) { /* where there are native samples, only when there are new threads */
                sampler_pass_over_native(now);
                sampling->first_pass = false;
            }
            next_scan = scan ? now + NATIVE_SCAN_NS : next_scan;
        }
        bool in_turns = native_source && !any_has_core() && !sampling->lacks_core, flush = now >= next_flush;
        if (flush) {
            sampler_emit_all_held();
            next_flush = now + flush_ns;
        }
        pthread_mutex_unlock(&table_lock);
        if (flush || recorder_is_full()) {
            ask_for_flush();
        }
        /* Late by a whole period: these ticks are lost, not made up for. */
        now = clock_wall_ns();
        sleep_until(in_turns ? moments_own_tick_after(now, step, process) : moments_tick_after(now, step));
        now = clock_wall_ns();
    }
    return NULL;
}

/* ---- start and stop ---- */

static void free_state(void)
{
    if (sampling) {
        while (sampling->count > 0) {
            sampler_forget(sampling->count - 1);
        }
        free(sampling->rows);
        free(sampling);
        sampling = NULL;
    }
}

/* The child has neither thread; what they were in the middle of is left alone. */
static void after_fork(void)
{
    pthread_mutex_init(&table_lock, NULL);
    pthread_mutex_init(&wake_lock, NULL);
    sampling = NULL;
    begin_flush(0);
    atomic_store(&started, false);
    atomic_store(&stopping, false);
    memory_after_fork();
    thread_state_after_fork();
    cores_after_fork();
}

static int create_thread(pthread_t *thread, void *(*body)(void *))
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits that no signal is for it */
    int error = pthread_create(thread, &attributes, body, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

void sampler_set_native(const sampler_native *source)
{
    native_source = source;
}

void sampler_set_rate(double rate_hz)
{
    atomic_store(&period_ns, rate_hz > 0 ? (uint64_t)(1e9 / rate_hz) : NATIVE_SCAN_NS);
}

int sampler_start(double rate_hz, double flush_s, bool python)
{
    if (atomic_load(&started)) {
        return EALREADY;
    }
    recorder_on_fork(after_fork);
    sampling = calloc(1, sizeof *sampling);
    if (sampling == NULL) {
        return ENOMEM;
    }
    sampling->first_pass = true;
    sampling->access = memory_guarded_access();
    sample_python = python && rate_hz > 0;
    sampler_set_rate(rate_hz);
    flush_ns = (uint64_t)(flush_s * 1e9);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wake_flusher, &attributes);
    pthread_condattr_destroy(&attributes);
    begin_flush(0);
    atomic_store(&stopping, false);
    int error = create_thread(&flusher_thread, flusher_main);
    if (error == 0) {
        error = create_thread(&sampler_thread, sampler_main);
        if (error) {
            atomic_store(&stopping, true);
            ask_for_flush();
            pthread_join(flusher_thread, NULL);
        }
    }
    if (error) {
        free_state();
    } else {
        atomic_store(&started, true);
    }
    return error;
}

void sampler_stop(void)
{
    if (atomic_exchange(&started, false)) {
        atomic_store(&stopping, true);
        ask_for_flush();
        pthread_join(sampler_thread, NULL);
        pthread_join(flusher_thread, NULL);
        pthread_mutex_lock(&table_lock);
        free_state();
        pthread_mutex_unlock(&table_lock);
    }
}

void sampler_add(pid_t tid, uint32_t path, uint32_t activity)
{
    pthread_mutex_lock(&table_lock);
    if (sampling) {
        watched *self = sampler_watch((pid_t)syscall(SYS_gettid), true);
        if (self && self->tid != tid) {
            self->ignored = true;
        }
        watched *w = sampler_watch(tid, true);
        if (w) {
            w->ignored = false;
            w->listed = true;
            sampler_look(w, &path, activity);
        }
    }
    pthread_mutex_unlock(&table_lock);
}
