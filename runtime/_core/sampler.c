#include "sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "frames.h"
#include "memory.h"
#include "record_kinds.h"
#include "recorder.h"
#include "thread_state.h"

#define NS_PER_MS UINT64_C(1000000)
#define NATIVE_SCAN_NS (100 * NS_PER_MS)
/* The interpreter's list of threads is not walked more often than this. */
#define WALK_NS (9 * NS_PER_MS / 2)
#define MOST_PYTHON_THREADS 1024
#define STACK_TRIES 3
#define THREAD_STACK ((size_t)512 << 10)
#define NATIVE_SAMPLES 64

/* A thread that is looked at. Its clocks are cumulative since the thread began. */
typedef struct {
    pid_t tid;
    bool python;    /* has had a Python thread state */
    bool listed;    /* has one now */
    bool ignored;   /* one of scalana's own */
    bool unsettled; /* where it is is not known: read its stack even if it has not run */
    bool held;      /* has not run since the sample that says where it is */
    bool indexed;
    uint32_t index; /* in the record */
    uint32_t path, state;
    uint64_t pass;        /* latest scan of the kernel's list that saw it */
    uint64_t walk;        /* latest walk along the interpreter's list that saw it */
    python_thread in_python;
    uint64_t cpu_ns;      /* at the latest look at which it had run */
    uint64_t look_ns;     /* time of that look */
    uint64_t held_ns;     /* latest look at which it had not */
    uint64_t reported_cpu_ns, reported_wait_ns; /* as in its samples so far */
    thread_files files;
    path_cache cache;
} watched;

typedef struct {
    watched **rows;
    size_t count, capacity;
    uint64_t pass, walk, ticks;
    uint64_t next_walk_ns;
    bool first_pass;
    enum memory_access access;
    frame_stack stack;
    python_thread threads[MOST_PYTHON_THREADS];
} sampler_state;

/* Guards the state against sampler_add; the sampler thread is its one other user. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static sampler_state *state;

static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake_flusher;
static bool flush_wanted;

static pthread_t sampler_thread, flusher_thread;
static atomic_bool started, stopping;
static atomic_int sampler_tid, flusher_tid;
static bool sample_python;
static const sampler_native *native;
static uint64_t period_ns, flush_ns;

/* ---- threads ---- */

static watched *find(pid_t tid)
{
    for (size_t i = 0; i < state->count; i++) {
        if (state->rows[i]->tid == tid) {
            return state->rows[i];
        }
    }
    return NULL;
}

/* The row of a thread, added when it is new: what it has used before the first pass is not ours to report. */
static watched *watch(pid_t tid, bool python)
{
    watched *w = find(tid);
    if (w == NULL) {
        if (state->count == state->capacity) {
            size_t capacity = state->capacity ? state->capacity * 2 : 64;
            watched **rows = realloc(state->rows, capacity * sizeof *rows);
            if (rows == NULL) {
                return NULL;
            }
            state->rows = rows;
            state->capacity = capacity;
        }
        w = calloc(1, sizeof *w);
        if (w == NULL) {
            return NULL;
        }
        w->tid = tid;
        w->unsettled = true;
        w->look_ns = clock_wall_ns();
        thread_files_init(&w->files, tid);
        if (state->first_pass) {
            clock_thread_cpu_ns(tid, &w->cpu_ns);
            w->reported_cpu_ns = w->cpu_ns;
            w->reported_wait_ns = thread_core_wait_ns(&w->files);
        }
        state->rows[state->count++] = w;
    }
    if (python && !w->python) {
        w->python = true;
        w->indexed = false; /* to be recorded anew, with Python frames */
        w->unsettled = true;
    }
    return w;
}

static void emit(watched *w, uint64_t time_ns, uint64_t cpu_us, uint64_t wait_us)
{
    if (!w->indexed) {
        uint32_t flags = w->python ? THREAD_PYTHON : THREAD_NATIVE;
        w->index = recorder_thread(w->tid, flags | (w->tid == getpid() ? THREAD_MAIN : 0u));
        w->indexed = true;
    }
    recorder_sample(w->index, time_ns, w->path, cpu_us, wait_us, w->state);
}

static void emit_held(watched *w)
{
    if (w->held && w->held_ns > w->look_ns && w->indexed && w->path != 0 && !w->ignored) {
        emit(w, w->held_ns, 0, 0);
        w->look_ns = w->held_ns;
    }
}

static void forget_thread(size_t row)
{
    watched *w = state->rows[row];
    emit_held(w);
    recorder_thread_gone(w->tid);
    if (native) {
        native->forget(w->tid);
    }
    thread_files_close(&w->files);
    free(w);
    state->rows[row] = state->rows[--state->count];
}

/* The path of a thread without Python frames: one made-up frame with the thread's name. */
static uint32_t native_path(pid_t tid)
{
    char path[64], name[64];
    ssize_t size = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size = read(fd, name, sizeof name);
        close(fd);
    }
    while (size > 0 && name[size - 1] == '\n') {
        size--;
    }
    for (ssize_t i = 0; i < size; i++) {
        if ((unsigned char)name[i] >= 0x80 || (unsigned char)name[i] < 0x20) {
            name[i] = '?';
        }
    }
    const code_content_view code = {
        .file = "[native]", .file_size = 8, .name = name, .name_size = size > 0 ? (size_t)size : 0};
    recorder_lock();
    uint32_t id = recorder_code_locked(&code);
    uint32_t found = id ? recorder_path_locked(0, id, 0) : 0;
    recorder_unlock();
    return found;
}

/* ---- one look at one thread ---- */

static uint64_t take_us(uint64_t now_ns, uint64_t *reported_ns)
{
    uint64_t us = now_ns > *reported_ns ? (now_ns - *reported_ns) / 1000 : 0;
    *reported_ns += us * 1000;
    return us;
}

/* Where the thread is: false when its stack kept changing underfoot. */
static bool locate(watched *w)
{
    bool no_frames = false;
    for (int i = 0; w->listed && i < STACK_TRIES; i++) {
        uint32_t path = 0;
        if (!frames_of_thread(state->access, &w->in_python, &state->stack, &w->cache)) {
            w->cache.count = 0; /* trust nothing at the next try */
            continue;
        }
        if (state->stack.count == 0) {
            no_frames = true;
            break;
        }
        if (frames_intern(state->access, &state->stack, &w->cache, &path)) {
            w->path = path;
            return true;
        }
        w->cache.count = 0;
    }
    if (w->listed && !no_frames) {
        return false;
    }
    w->path = native_path(w->tid);
    return true;
}

enum sight { HAS_ENDED, AT_REST, HAS_RUN };

/* The look proper, with the clock read before the stack: if the clock stands still at the next look, the thread was at
 * rest when its stack was read. `given` is the path when another sampler found it. */
static enum sight look(watched *w, const uint32_t *given, uint32_t given_state)
{
    uint64_t now = clock_wall_ns();
    uint64_t cpu;
    if (!clock_thread_cpu_ns(w->tid, &cpu) || cpu < w->cpu_ns) { /* or its kernel id is another thread's now */
        return HAS_ENDED;
    }
    bool ran = cpu != w->cpu_ns, first = w->unsettled;
    if (!ran && !w->unsettled && (given == NULL || *given == w->path)) {
        if (!w->held || w->state == STATE_RUNNING) {
            w->state = given && given_state <= STATE_UNKNOWN ? given_state : thread_activity_now(&w->files);
        }
        w->held = true;
        w->held_ns = now;
        return AT_REST;
    }
    emit_held(w);
    uint64_t passed = now > w->look_ns ? now - w->look_ns : 0;
    uint64_t used = cpu - w->cpu_ns;
    w->held = false;
    w->cpu_ns = cpu;
    w->look_ns = now;
    if (given) {
        w->path = *given;
    } else if (!locate(w)) {
        w->unsettled = true;
        return HAS_RUN;
    }
    w->unsettled = false;
    if (w->path == 0) {
        return HAS_RUN; /* nothing but scalana's own runtime */
    }
    if (given && given_state <= STATE_UNKNOWN) {
        w->state = given_state;
    } else {
        w->state = used >= passed / 10 * 9 && !first ? STATE_RUNNING : thread_activity_now(&w->files);
    }
    uint64_t wait_us = 0;
    if (used < passed / 50 * 49 || first) {
        wait_us = take_us(thread_core_wait_ns(&w->files), &w->reported_wait_ns);
    }
    emit(w, now, take_us(cpu, &w->reported_cpu_ns), wait_us);
    return HAS_RUN;
}

/* A look at a thread of native code. While it runs, samples come from elsewhere, each with its time; what it does when
 * it does not run is found here, once. */
static enum sight look_natively(watched *w)
{
    native_sample samples[NATIVE_SAMPLES];
    uint64_t now = clock_wall_ns();
    uint64_t cpu;
    if (!clock_thread_cpu_ns(w->tid, &cpu) || cpu < w->cpu_ns) {
        return HAS_ENDED;
    }
    if (cpu == w->cpu_ns && w->held) {
        w->held_ns = now;
        return AT_REST;
    }
    size_t count = native->take(w->tid, samples, NATIVE_SAMPLES);
    if (count > 0) {
        uint64_t us = take_us(cpu, &w->reported_cpu_ns);
        uint64_t wait_us = take_us(thread_core_wait_ns(&w->files), &w->reported_wait_ns);
        emit_held(w);
        w->held = false;
        w->state = STATE_RUNNING;
        for (size_t i = 0; i < count; i++) {
            uint64_t last = i + 1 == count;
            w->path = samples[i].path;
            emit(w, samples[i].time_ns, last ? us - us / count * i : us / count,
                 last ? wait_us - wait_us / count * i : wait_us / count);
        }
        w->look_ns = samples[count - 1].time_ns;
        w->cpu_ns = cpu;
        return HAS_RUN;
    }
    enum thread_activity activity = thread_activity_now(&w->files);
    uint32_t path = activity == STATE_RUNNING ? 0 : native->path_at_rest(w->tid);
    if (path == 0) { /* it runs, and a sample of that is to come */
        return HAS_RUN;
    }
    emit_held(w);
    w->held = true;
    w->state = activity;
    w->path = path;
    w->cpu_ns = cpu;
    w->look_ns = w->held_ns = now;
    emit(w, now, take_us(cpu, &w->reported_cpu_ns), take_us(thread_core_wait_ns(&w->files), &w->reported_wait_ns));
    return AT_REST;
}

/* ---- passes ---- */

static void pass_over_known(void)
{
    for (size_t i = state->count; i > 0; i--) {
        if (look_natively(state->rows[i - 1]) == HAS_ENDED) {
            forget_thread(i - 1);
        }
    }
}

/* Rows move when one is forgotten: backwards, so that none is missed. */
static bool look_at_listed(void)
{
    bool any_ran = false;
    for (size_t i = state->count; i > 0; i--) {
        watched *w = state->rows[i - 1];
        if (w->listed && !w->ignored) {
            enum sight seen = look(w, NULL, 0);
            if (seen == HAS_ENDED) {
                forget_thread(i - 1);
            }
            any_ran = any_ran || seen == HAS_RUN;
        }
    }
    return any_ran;
}

/* Finds threads that are new to Python, and those that are no longer in it. */
static void walk_thread_list(void)
{
    bool whole;
    size_t count = frames_threads(state->access, state->threads, MOST_PYTHON_THREADS, &whole);
    state->walk++;
    for (size_t i = 0; i < count; i++) {
        watched *w = watch(state->threads[i].tid, true);
        if (w == NULL) {
            continue;
        }
        w->walk = state->walk;
        if (!w->listed || w->in_python.state != state->threads[i].state) {
            w->in_python = state->threads[i];
            w->listed = true;
            w->unsettled = true;
        }
        if (w->unsettled && !w->ignored) {
            look(w, NULL, 0);
        }
    }
    for (size_t i = 0; whole && i < state->count; i++) {
        if (state->rows[i]->walk != state->walk) {
            state->rows[i]->listed = false;
        }
    }
}

/* While no thread has run, no thread can have come. */
static void pass_over_python(uint64_t now, bool scan)
{
    bool any_ran = look_at_listed();
    if ((any_ran || scan) && now >= state->next_walk_ns) {
        walk_thread_list();
        state->next_walk_ns = now + WALK_NS;
    }
}

struct directory_entry { /* of getdents64, see its manual page */
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* Looks at a thread of the kernel's list, unless it is one whose Python frames are sampled. */
static void look_at_native(pid_t tid, uint64_t now)
{
    if (tid == atomic_load(&sampler_tid) || tid == atomic_load(&flusher_tid)) {
        return;
    }
    watched *w = find(tid);
    if (w == NULL) {
        w = watch(tid, false);
        if (w == NULL) {
            return;
        }
        w->unsettled = false; /* of no interest before it runs */
        w->look_ns = now - (state->first_pass ? 0 : NATIVE_SCAN_NS);
    }
    w->pass = state->pass;
    if (native) {
        native->take(tid, NULL, 0); /* from now on its samples are kept */
        return;
    }
    if (!w->ignored && !w->listed && look(w, NULL, 0) == HAS_ENDED) {
        w->pass = 0;
    }
}

static void pass_over_native(uint64_t now)
{
    _Alignas(8) char buffer[4096];
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    state->pass++;
    long size;
    while ((size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < size;) {
            const struct directory_entry *entry = (const void *)(buffer + at);
            pid_t tid = (pid_t)strtol(entry->name, NULL, 10);
            if (tid > 0) {
                look_at_native(tid, now);
            }
            at += entry->size;
        }
    }
    close(fd);
    for (size_t i = state->count; i > 0; i--) {
        if (state->rows[i - 1]->pass != state->pass) {
            forget_thread(i - 1);
        }
    }
}

static void emit_all_held(void)
{
    for (size_t i = 0; i < state->count; i++) {
        if (state->rows[i]->python || native) {
            emit_held(state->rows[i]);
        }
    }
}

/* ---- the threads ---- */

static void ask_for_flush(void)
{
    pthread_mutex_lock(&wake_lock);
    flush_wanted = true;
    pthread_cond_signal(&wake_flusher);
    pthread_mutex_unlock(&wake_lock);
}

/* Writes to disk on a thread of its own, so that a slow disk does not blind the sampler. */
static void *flusher_main(void *unused)
{
    (void)unused;
    atomic_store(&flusher_tid, (int)syscall(SYS_gettid));
    prctl(PR_SET_NAME, "scalana-write");
    pthread_mutex_lock(&wake_lock);
    while (!atomic_load(&stopping)) {
        if (flush_wanted) {
            flush_wanted = false;
            pthread_mutex_unlock(&wake_lock);
            recorder_flush();
            pthread_mutex_lock(&wake_lock);
        } else {
            pthread_cond_wait(&wake_flusher, &wake_lock);
        }
    }
    pthread_mutex_unlock(&wake_lock);
    return NULL;
}

static void sleep_until(uint64_t time_ns)
{
    struct timespec t = {(time_t)(time_ns / UINT64_C(1000000000)), (long)(time_ns % UINT64_C(1000000000))};
    while (!atomic_load(&stopping) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Up to an eighth of the period either way, so that a program that works in step with the clock is sampled fairly. */
static int64_t jitter(uint64_t *seed, uint64_t period)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    uint64_t range = period / 4;
    return range ? (int64_t)(*seed % range) - (int64_t)(range / 2) : 0;
}

static void *sampler_main(void *unused)
{
    (void)unused;
    atomic_store(&sampler_tid, (int)syscall(SYS_gettid));
    prctl(PR_SET_NAME, "scalana-sample");
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    uint64_t step = sample_python || native ? period_ns : NATIVE_SCAN_NS;
    uint64_t now = clock_wall_ns(), tick = now, next_scan = now, next_flush = now + flush_ns;
    uint64_t seed = now | 1;
    while (!atomic_load(&stopping)) {
        uint64_t skip = (UINT64_C(1) << recorder_level()) - 1;
        pthread_mutex_lock(&table_lock);
        if ((state->ticks++ & skip) == 0) {
            bool scan = now >= next_scan;
            if (sample_python) {
                pass_over_python(now, scan);
            }
            if (native) {
                pass_over_known();
            }
            if (scan) {
                pass_over_native(now);
                next_scan = now + NATIVE_SCAN_NS;
                state->first_pass = false;
            }
        }
        bool flush = now >= next_flush;
        if (flush) {
            emit_all_held();
            next_flush = now + flush_ns;
        }
        pthread_mutex_unlock(&table_lock);
        if (flush || recorder_is_full()) {
            ask_for_flush();
        }
        tick += step;
        now = clock_wall_ns();
        if (tick < now) { /* late by a whole period: these ticks are lost, not made up for */
            tick = now;
        }
        sleep_until((uint64_t)((int64_t)tick + jitter(&seed, step)));
        now = clock_wall_ns();
    }
    return NULL;
}

/* ---- start and stop ---- */

static void free_state(void)
{
    if (state) {
        while (state->count > 0) {
            forget_thread(state->count - 1);
        }
        free(state->rows);
        free(state);
        state = NULL;
    }
}

/* The child has neither thread; what they were in the middle of is left alone. */
static void after_fork(void)
{
    pthread_mutex_init(&table_lock, NULL);
    pthread_mutex_init(&wake_lock, NULL);
    state = NULL;
    flush_wanted = false;
    atomic_store(&started, false);
    atomic_store(&stopping, false);
    memory_after_fork();
    thread_state_after_fork();
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
    native = source;
}

int sampler_start(double rate_hz, double flush_s, bool python)
{
    if (atomic_load(&started)) {
        return EALREADY;
    }
    recorder_on_fork(after_fork);
    state = calloc(1, sizeof *state);
    if (state == NULL) {
        return ENOMEM;
    }
    state->first_pass = true;
    state->access = memory_guarded_access();
    sample_python = python && rate_hz > 0;
    period_ns = rate_hz > 0 ? (uint64_t)(1e9 / rate_hz) : NATIVE_SCAN_NS;
    flush_ns = (uint64_t)(flush_s * 1e9);
    pthread_cond_init(&wake_flusher, NULL);
    flush_wanted = false;
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
    if (state) {
        watched *self = watch((pid_t)syscall(SYS_gettid), true);
        if (self && self->tid != tid) {
            self->ignored = true;
        }
        watched *w = watch(tid, true);
        if (w) {
            w->ignored = false;
            w->listed = true;
            look(w, &path, activity);
        }
    }
    pthread_mutex_unlock(&table_lock);
}
