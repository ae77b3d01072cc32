#include "sampler/look.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clocks.h"
#include "frames/code.h"
#include "frames/other.h"
#include "record/kinds.h"
#include "recorder/calls.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "threads/state.h"

#define STACK_TRIES 5
#define NATIVE_SAMPLES 128
/* Who reads a stack has been off its core for so long, or took many times what that takes, which a host may have
 * taken from the core unseen. */
#define LOST_CORE_NS (NS_PER_MS / 100)
#define LONG_READ_NS (NS_PER_MS / 10)
/* A host may take a core away for so much of the time, one in so many parts, unseen by its guest. */
#define STOLEN_PART 32u
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

/* How long it waited for a core since this was asked for. `now` is when the look at it began. */
static uint64_t core_wait_us(watched *w, uint64_t now)
{
    uint64_t wait = w->wait_asked_ns == now ? w->tick_wait_ns : thread_core_wait_ns(&w->files);
    w->unused_ns = 0;
    return take_us(wait, &w->reported_wait_ns);
}

/* What is remembered of its stacks may be wrong. */
static void distrust(watched *w)
{
    w->cache.count = 0;
    frames_doubt(&w->cache.hints);
}

static bool same_place(const frame_reference *a, const frame_reference *b)
{
    return a->code == b->code && a->fingerprint == b->fingerprint && a->lasti == b->lasti;
}

/* Leaves out the inner frames that differ from those of an earlier stack of the same thread: it was in the others both
 * times. In the innermost of these it has gone on. */
static void keep_common(frame_stack *stack, const frame_stack *earlier)
{
    size_t common = 0, most = stack->count < earlier->count ? stack->count : earlier->count;
    while (common < most && same_place(&stack->frames[stack->count - 1 - common],
                                       &earlier->frames[earlier->count - 1 - common])) {
        common++;
    }
    if (common > 0) {
        memmove(stack->frames, stack->frames + (stack->count - common), common * sizeof *stack->frames);
        stack->count = common;
    }
}

/* Where the thread is: false when its stack kept changing underfoot. Who loses its core in the midst of reading may
 * find frames of before and of after in places that look alike: what took long is read until it is found twice, or at
 * once. Where reading always takes long, what the last two stacks have in common is believed. */
static bool locate(watched *w)
{
    int empty = 0; /* a stack that is just being changed may look empty: believe it only if it always does */
    uint32_t before = 0;
    frame_stack *stack = &sampling->stack, *earlier = &sampling->earlier;
    earlier->count = 0;
    for (int i = 0; w->listed && i < STACK_TRIES; i++) {
        uint32_t path = 0;
        uint64_t start_cpu = clock_own_cpu_ns(), start = clock_wall_ns();
        if (!frames_of_thread(sampling->access, &w->in_python, stack, &w->cache)) {
            distrust(w);
            continue;
        }
        if (stack->count == 0) {
            empty++;
            distrust(w);
            continue;
        }
        bool last = i + 1 == STACK_TRIES && earlier->count > 0 && !stack->cut && !earlier->cut;
        if (last) {
            keep_common(stack, earlier);
        }
        if (frames_intern(sampling->access, stack, &w->cache, &path)) {
            uint64_t wall = clock_wall_ns() - start, cpu = clock_own_cpu_ns() - start_cpu;
            bool at_once = wall < LONG_READ_NS && wall < cpu + LOST_CORE_NS;
            if (at_once || (earlier->count > 0 && path == before) || i + 1 == STACK_TRIES) {
                w->path = path;
                return true;
            }
            before = path;
            earlier->count = stack->count;
            earlier->cut = stack->cut;
            memcpy(earlier->frames, stack->frames, stack->count * sizeof *stack->frames);
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
    cores_look(&w->core, w->tid, now, cpu);
    if (!ran && !w->unsettled && (given == NULL || *given == w->path)) {
        uint32_t state = w->state;
        if (!w->held || state == STATE_RUNNING) {
            w->state = given && given_state <= STATE_UNKNOWN ? given_state : thread_activity_now(&w->files);
        }
        if (state == STATE_RUNNING && w->state != state && w->indexed && w->path != 0) {
            w->look_ns = now; /* it ran all through until it came to rest, which was told of as running */
            emit(w, now, 0, 0);
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
        wait_us = core_wait_us(w, now);
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

/* Whether a thread ran since the last tick, and else lacked a core, next to nothing left aside. The kernel tells how long
 * it waited for one when that is over: what it may yet tell is left for the next tick. */
static bool lacked_core(watched *w, uint64_t now, uint64_t cpu)
{
    uint64_t used = cpu - w->tick_cpu_ns, passed = now - w->tick_ns;
    uint64_t unused = passed > used ? passed - used : 0;
    w->unused_ns += unused;
    w->unexplained_ns += unused > passed / STOLEN_PART ? unused - passed / STOLEN_PART : 0;
    w->had_core = unused < passed / 16;
    sampling->half_used = sampling->half_used || used > passed / 2;
    w->tick_ns = now;
    w->tick_cpu_ns = cpu;
    if (used == 0 || w->unexplained_ns <= passed / 8) {
        return false;
    }
    uint64_t wait = thread_core_wait_ns(&w->files), waited = wait - w->tick_wait_ns;
    uint64_t rested = w->unexplained_ns > waited ? w->unexplained_ns - waited : 0;
    w->tick_wait_ns = wait;
    w->wait_asked_ns = now;
    w->unexplained_ns = rested < unused ? rested : unused;
    if (rested - w->unexplained_ns > passed / 8) {
        sampling->steady = false; /* while threads rest, or run, all through, nothing is missed by looking less often */
    }
    return rested <= passed / 8;
}

typedef struct {
    uint64_t cpu_us, wait_us;
} spent;

/* What samples stand for: the CPU time that each comes after, and what passed between two besides as a wait for a core, as
 * far as there was so much of it. What came after the last one is left to the next. */
static void divide(watched *w, const native_sample *samples, size_t count, uint64_t now, uint64_t cpu, spent shares[])
{
    const uint64_t period_us = native_source->period_ns / 1000;
    uint64_t us = take_us(cpu, &w->reported_cpu_ns), wait_us = w->unused_ns > MOST_UNUSED_NS ? core_wait_us(w, now) : 0;
    uint64_t before = w->held ? w->held_ns : w->look_ns, told_us = 0, sum_us = 0;
    for (size_t i = 0; i < count; i++) {
        told_us += samples[i].cpu_ns / 1000;
    }
    uint64_t more_us = us > told_us ? us - told_us : 0, left_us = more_us < period_us ? more_us : period_us;
    double part = told_us ? (double)(us - left_us) / (double)told_us : 0.0; /* it may have used more than was sampled */
    for (size_t i = 0; i < count; i++) {
        shares[i].cpu_us = (uint64_t)(part * (double)(samples[i].cpu_ns / 1000));
        uint64_t passed_us = samples[i].time_ns > before ? (samples[i].time_ns - before) / 1000 : 0;
        shares[i].wait_us = passed_us > shares[i].cpu_us ? passed_us - shares[i].cpu_us : 0;
        sum_us += shares[i].wait_us;
        before = samples[i].time_ns;
    }
    for (size_t i = 0; i < count && sum_us > wait_us; i++) { /* it rested as well */
        shares[i].wait_us = (uint64_t)((double)shares[i].wait_us * (double)wait_us / (double)sum_us);
    }
    w->reported_cpu_ns -= left_us * 1000;
    if (wait_us > sum_us) {
        w->reported_wait_ns -= (wait_us - sum_us) * 1000;
        w->unused_ns = (wait_us - sum_us) * 1000;
    }
}

/* What a thread that has ended did since the latest look at it: the first sample of all also stands for what the thread
 * had used when it was found. */
static void emit_last(watched *w)
{
    native_sample samples[NATIVE_SAMPLES];
    size_t count = native_source->take(w->tid, samples, NATIVE_SAMPLES);
    uint64_t before_us = w->indexed ? 0 : (w->cpu_ns - w->reported_cpu_ns) / 1000;
    if (count == 0 || w->ignored) {
        return;
    }
    sampler_emit_held(w);
    w->held = false;
    w->state = STATE_RUNNING;
    for (size_t i = 0; i < count; i++) {
        w->path = samples[i].path;
        emit(w, samples[i].time_ns, samples[i].cpu_ns / 1000 + (i == 0 ? before_us : 0), 0);
    }
}

/* A look at a thread of native code. While it runs, samples come from elsewhere, each with its time; what it does when
 * it does not run is found here, once. */
enum sight sampler_look_natively(watched *w)
{
    native_sample samples[NATIVE_SAMPLES];
    uint64_t now = clock_wall_ns();
    uint64_t cpu, after;
    if (!clock_thread_cpu_ns(w->tid, &cpu) || cpu < w->cpu_ns) {
        emit_last(w);
        return HAS_ENDED;
    }
    cores_look(&w->core, w->tid, now, cpu);
    bool waited = lacked_core(w, now, cpu);
    sampling->lacks_core = sampling->lacks_core || waited;
    if (cpu == w->cpu_ns && w->held) {
        w->held_ns = now;
        return AT_REST;
    }
    size_t count = native_source->take(w->tid, samples, NATIVE_SAMPLES);
    if (count > 0) {
        spent shares[NATIVE_SAMPLES];
        divide(w, samples, count, now, cpu, shares);
        /* The first sample comes after its CPU time and waits for a core: until then, the thread was at rest. */
        uint64_t awake = samples[0].cpu_ns + shares[0].wait_us * 1000, first = samples[0].time_ns;
        if (w->held && first > awake && first - awake > w->held_ns) {
            w->held_ns = first - awake;
        }
        sampling->steady = sampling->steady && !w->held;
        sampler_emit_held(w);
        w->held = false;
        w->state = STATE_RUNNING;
        for (size_t i = 0; i < count; i++) {
            w->path = samples[i].path;
            emit(w, samples[i].time_ns, shares[i].cpu_us, shares[i].wait_us);
        }
        w->look_ns = samples[count - 1].time_ns;
        w->cpu_ns = cpu;
        /* Where its clock stands still it may be at rest since: who runs and rests in turns would seldom be found at it. */
        if (waited || !clock_thread_cpu_ns(w->tid, &after) || after != cpu) {
            return HAS_RUN;
        }
    } else if (waited) {
        return HAS_RUN;
    }
    enum thread_activity activity = thread_activity_now(&w->files);
    uint32_t path = activity == STATE_RUNNING ? 0 : native_source->path_at_rest(w->tid);
    if (path == 0 || !clock_thread_cpu_ns(w->tid, &after) || after != cpu) {
        return HAS_RUN; /* it runs, and a sample of that is to come; or it ran on while it was looked at */
    }
    sampling->steady = false;
    sampler_emit_held(w);
    w->held = true;
    w->state = activity;
    w->path = path;
    w->cpu_ns = cpu;
    w->look_ns = w->held_ns = now;
    emit(w, now, take_us(cpu, &w->reported_cpu_ns), core_wait_us(w, now));
    return AT_REST;
}
