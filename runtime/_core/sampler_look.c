/* The threads that are looked at, and one look at one of them. */
#include "sampler_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clocks.h"
#include "record_kinds.h"
#include "recorder.h"

#define STACK_TRIES 5
#define NATIVE_SAMPLES 64
/* Many times what reading a stack takes. */
#define LONG_READ_NS (NS_PER_MS / 5)
/* How long a thread has waited for a core is asked for when this much time is unaccounted for, or a tenth. */
#define MOST_UNUSED_NS (NS_PER_MS / 2)

watched *sampler_find(pid_t tid)
{
    for (size_t i = 0; i < sampling->count; i++) {
        if (sampling->rows[i]->tid == tid) {
            return sampling->rows[i];
        }
    }
    return NULL;
}

/* The row of a thread, added when it is new: what it has used before the first pass is not ours to report. */
watched *sampler_watch(pid_t tid, bool python)
{
    watched *w = sampler_find(tid);
    if (w == NULL) {
        if (sampling->count == sampling->capacity) {
            size_t capacity = sampling->capacity ? sampling->capacity * 2 : 64;
            watched **rows = realloc(sampling->rows, capacity * sizeof *rows);
            if (rows == NULL) {
                return NULL;
            }
            sampling->rows = rows;
            sampling->capacity = capacity;
        }
        w = calloc(1, sizeof *w);
        if (w == NULL) {
            return NULL;
        }
        w->tid = tid;
        w->unsettled = true;
        w->look_ns = clock_wall_ns();
        thread_files_init(&w->files, tid);
        if (sampling->first_pass) {
            clock_thread_cpu_ns(tid, &w->cpu_ns);
            w->reported_cpu_ns = w->cpu_ns;
            w->reported_wait_ns = thread_core_wait_ns(&w->files);
        }
        sampling->rows[sampling->count++] = w;
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

void sampler_emit_held(watched *w)
{
    if (w->held && w->held_ns > w->look_ns && w->indexed && w->path != 0 && !w->ignored) {
        emit(w, w->held_ns, 0, 0);
        w->look_ns = w->held_ns;
    }
}

void sampler_forget(size_t row)
{
    watched *w = sampling->rows[row];
    sampler_emit_held(w);
    recorder_thread_gone(w->tid);
    if (native_source) {
        native_source->forget(w->tid);
    }
    thread_files_close(&w->files);
    free(w);
    sampling->rows[row] = sampling->rows[--sampling->count];
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

/* How long it waited for a core since this was asked for. */
static uint64_t core_wait_us(watched *w)
{
    w->unused_ns = 0;
    return take_us(thread_core_wait_ns(&w->files), &w->reported_wait_ns);
}

/* What is remembered of its stacks may be wrong. */
static void distrust(watched *w)
{
    w->cache.count = 0;
    frames_doubt(&w->cache.hints);
}

/* Where the thread is: false when its stack kept changing underfoot. Who loses its core in the midst of reading may
 * find frames of before and of after in places that look alike: what took long is read again, unless it always does. */
static bool locate(watched *w)
{
    int empty = 0; /* a stack that is just being changed may look empty: believe it only if it always does */
    for (int i = 0; w->listed && i < STACK_TRIES; i++) {
        uint32_t path = 0;
        uint64_t start = clock_wall_ns();
        if (!frames_of_thread(sampling->access, &w->in_python, &sampling->stack, &w->cache)) {
            distrust(w);
            continue;
        }
        if (sampling->stack.count == 0) {
            empty++;
            distrust(w);
            continue;
        }
        if (frames_intern(sampling->access, &sampling->stack, &w->cache, &path) &&
            (clock_wall_ns() - start < LONG_READ_NS || i + 1 == STACK_TRIES)) {
            w->path = path;
            return true;
        }
        distrust(w);
    }
    if (w->listed && empty < STACK_TRIES) {
        return false;
    }
    w->path = native_path(w->tid);
    return true;
}

/* The look proper, with the clock read before the stack: if the clock stands still at the next look, the thread was at
 * rest when its stack was read. `given` is the path when another sampler found it. */
enum sight sampler_look(watched *w, const uint32_t *given, uint32_t given_state)
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
    sampler_emit_held(w);
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
    uint64_t wait_us = 0;
    w->unused_ns += passed > used ? passed - used : 0;
    if (w->unused_ns > passed / 10 || w->unused_ns > MOST_UNUSED_NS || first) {
        wait_us = core_wait_us(w);
    }
    if (given && given_state <= STATE_UNKNOWN) {
        w->state = given_state;
    } else { /* one that only ran or waited for a core does so now, too */
        bool all_through = used + wait_us * 1000 >= passed / 10 * 9 && !first;
        w->state = all_through ? STATE_RUNNING : thread_activity_now(&w->files);
    }
    emit(w, now, take_us(cpu, &w->reported_cpu_ns), wait_us);
    return HAS_RUN;
}

/* While all threads rest or run all through, nothing is missed by looking less often. For how long a thread that ran
 * since the last tick did not run: 0 if next to nothing. */
static uint64_t note_tick(watched *w, uint64_t now, uint64_t cpu)
{
    uint64_t used = cpu - w->tick_cpu_ns, passed = now - w->tick_ns;
    uint64_t unused = passed > used ? passed - used : 0;
    w->unused_ns += unused;
    w->tick_ns = now;
    w->tick_cpu_ns = cpu;
    return used > 0 && unused > passed / 8 ? unused : 0;
}

/* A look at a thread of native code. While it runs, samples come from elsewhere, each with its time; what it does when
 * it does not run is found here, once. */
enum sight sampler_look_natively(watched *w)
{
    native_sample samples[NATIVE_SAMPLES];
    uint64_t now = clock_wall_ns();
    uint64_t cpu;
    if (!clock_thread_cpu_ns(w->tid, &cpu) || cpu < w->cpu_ns) {
        return HAS_ENDED;
    }
    uint64_t unused = note_tick(w, now, cpu);
    if (cpu == w->cpu_ns && w->held) {
        w->held_ns = now;
        return AT_REST;
    }
    size_t count = native_source->take(w->tid, samples, NATIVE_SAMPLES);
    const uint64_t period = native_source->period_ns;
    if (count > 0) {
        /* Each sample comes after a period of CPU time: until one before the first, the thread was at rest. */
        uint64_t rested = samples[0].time_ns > period ? samples[0].time_ns - period : 0;
        if (w->held && rested > w->held_ns) {
            w->held_ns = rested;
        }
        uint64_t us = take_us(cpu, &w->reported_cpu_ns);
        uint64_t wait_us = w->unused_ns > MOST_UNUSED_NS ? core_wait_us(w) : 0;
        if (unused / 8 * 7 > wait_us * 1000) { /* it was not just without a core */
            sampling->steady = false;
        }
        sampler_emit_held(w);
        w->held = false;
        w->state = STATE_RUNNING;
        /* Each is worth a period of it, the first also what the thread used before it was found. */
        uint64_t each_us = us / count < period / 1000 ? us / count : period / 1000;
        for (size_t i = 0; i < count; i++) {
            uint64_t others = count - 1;
            w->path = samples[i].path;
            emit(w, samples[i].time_ns, i == 0 ? us - each_us * others : each_us,
                 i == 0 ? wait_us - wait_us / count * others : wait_us / count);
        }
        w->look_ns = samples[count - 1].time_ns;
        w->cpu_ns = cpu;
        return HAS_RUN;
    }
    sampling->steady = sampling->steady && unused == 0;
    enum thread_activity activity = thread_activity_now(&w->files);
    uint32_t path = activity == STATE_RUNNING ? 0 : native_source->path_at_rest(w->tid);
    uint64_t after;
    if (path == 0 || !clock_thread_cpu_ns(w->tid, &after) || after != cpu) {
        return HAS_RUN; /* it runs, and a sample of that is to come; or it ran on while it was looked at */
    }
    sampler_emit_held(w);
    w->held = true;
    w->state = activity;
    w->path = path;
    w->cpu_ns = cpu;
    w->look_ns = w->held_ns = now;
    emit(w, now, take_us(cpu, &w->reported_cpu_ns), core_wait_us(w));
    return AT_REST;
}
