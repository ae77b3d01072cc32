#include "sampling/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clocks.h"
#include "base/memory.h"
#include "callers/threads.h"
#include "sampler/sampler.h"
#include "sampling/core_turns.h"
#include "sampling/kernel.h"
#include "sampling/text_file.h"
#include "sampling/timers.h"
#include "unwind/paths.h"
#include "unwind/unwind.h"

/* How much of a stack is copied with a sample: as much as nearly all of the thread's latest samples needed. Copying
 * eight kilobytes costs as much again as the interrupt. */
#define LEAST_STACK_BYTES 1024u
#define SIZES 4u             /* from the least by twos to all */
#define SETTLED_SAMPLES 64u  /* looked at before less is copied */
#define LONGEST_SETTLING 4096u
#define MOST_DEEPER_PART 128u /* one sample in so many may need more than is copied, and is lost */
/* That rings have room for, and as many again, if whole stacks are copied. */
#define KERNEL_PERIODS 8u
#define TIMER_PERIODS 30u
/* Samples that the kernel takes of a thread that takes turns, before it is seen whether it still does; and at most. */
#define FIRST_KERNEL_SAMPLES 256u
#define MOST_KERNEL_SAMPLES 65536u
#define SILENT_PERIODS 400u /* of CPU time without a sample: its timer does not work */
#define BLOCKED_LOOKS 3u   /* until a thread is believed to block the signal for good */
#define TIMED_SAMPLES 8u   /* looked at before a timer is set anew */
#define FEW_PERIODS 2u      /* so many may pass before one is taken */
#define SHORTEST_PART 8u   /* of a period: timers end no sooner */
#define THREADS 1024

enum way { NO_WAY, TO_COME, BY_TIMER, BY_KERNEL };

typedef struct {
    pid_t tid;
    enum way way;
    timer_ring *timer;         /* NULL: none; it is kept while the kernel samples for a while */
    kernel_ring kernel;
    uint64_t timer_ns;         /* after so much CPU time the timer ends */
    uint64_t timed, timed_ns;  /* samples since that was looked at, and what they stand for */
    core_turns turns;
    uint32_t kernel_samples;   /* the kernel took, or takes, so many because the thread takes turns */
    size_t kernel_left;        /* of them */
    unsigned blocked;          /* looks at which it blocked the signal */
    uint64_t silent_ns;        /* CPU clock of the thread when the first of the latest looks found no sample */
    uint32_t size;             /* number of the size that is copied with each sample */
    uint32_t needing[SIZES];   /* samples since that was looked at, by the least size that holds what they needed */
    uint32_t samples, settle;  /* since then, and how many there are to be before it is looked at again */
    bool has_run, runs;        /* at any time, and when samples were taken last */
} watched_event;

static watched_event events[THREADS];
static size_t event_count;
static uint64_t period_ns;
static enum way first_way;     /* to be tried of a thread */
static bool kernel_allowed;

static uint32_t bytes_of(uint32_t size)
{
    return LEAST_STACK_BYTES << size;
}

/* Begins to sample a thread by timer, or else by the kernel, as far as these are allowed. Libraries block all signals
 * for a moment when they create a thread, which is waited for. */
static void begin_event(watched_event *e, enum way way)
{
    const uint64_t young_ns = period_ns / 4; /* it may not live for long */
    way = way == BY_TIMER && timer_samples_intact() ? BY_TIMER : BY_KERNEL;
    bool blocked = way == BY_TIMER && timer_samples_blocked(e->tid);
    e->way = NO_WAY;
    if (blocked && (e->blocked++ < BLOCKED_LOOKS || !kernel_allowed)) {
        e->way = TO_COME;
    } else if (way == BY_TIMER && !blocked && (e->timer = timer_ring_open(e->tid, young_ns, bytes_of(e->size))) != NULL) {
        e->way = BY_TIMER;
        e->timer_ns = young_ns;
        e->silent_ns = 0;
    } else if (kernel_allowed && kernel_ring_open(&e->kernel, e->tid, period_ns, bytes_of(e->size))) {
        e->way = BY_KERNEL;
    }
}

static void end_event(watched_event *e)
{
    if (e->timer) {
        timer_ring_close(e->timer);
    }
    if (e->way == BY_KERNEL) {
        kernel_ring_close(&e->kernel);
    }
    e->timer = NULL;
    e->way = NO_WAY;
}

/* Samples a thread with another size of its stack, if the kernel allows that; a sample may be lost over it. */
static void resize(watched_event *e, uint32_t size)
{
    kernel_ring other;
    if (e->way == BY_TIMER) {
        timer_ring_set_stack(e->timer, bytes_of(size));
    } else if (kernel_ring_open(&other, e->tid, period_ns, bytes_of(size))) {
        kernel_ring_close(&e->kernel);
        e->kernel = other;
    } else {
        return;
    }
    e->size = size;
}

/* Samples that needed more than a size. */
static uint32_t deeper_than(const watched_event *e, uint32_t size)
{
    uint32_t count = 0;
    for (uint32_t larger = size + 1; larger < SIZES; larger++) {
        count += e->needing[larger];
    }
    return count;
}

/* Looks whether samples of a thread need more or less of its stack than is copied. */
static void settle(watched_event *e)
{
    bool more = deeper_than(e, e->size) > 1 + e->samples / (MOST_DEEPER_PART / 2);
    if (more) {
        resize(e, SIZES - 1);
    } else if (e->samples < e->settle) {
        return;
    } else {
        uint32_t enough = 0;
        while (deeper_than(e, enough) > e->samples / MOST_DEEPER_PART) {
            enough++;
        }
        if (enough != e->size) {
            resize(e, enough);
        }
    }
    /* Where its depth varies, it takes longer to believe that little is enough. */
    uint32_t longer = e->settle * (more ? 8u : 2u);
    e->settle = longer < LONGEST_SETTLING ? longer : LONGEST_SETTLING;
    e->samples = 0;
    memset(e->needing, 0, sizeof e->needing);
}

static watched_event *event_of(pid_t tid)
{
    for (size_t i = 0; i < event_count; i++) {
        if (events[i].tid == tid) {
            if (events[i].way == TO_COME) {
                begin_event(&events[i], BY_TIMER);
            }
            return &events[i];
        }
    }
    if (event_count == THREADS) {
        return NULL;
    }
    watched_event *e = &events[event_count++];
    *e = (watched_event){.tid = tid, .size = SIZES - 1, .settle = SETTLED_SAMPLES};
    begin_event(e, first_way);
    return e;
}

/* Of the stack of a thread, from the stack pointer to the outermost return address. */
static uint32_t bytes_needed(const unwind_stack *stack, const unwind_frame *frames, size_t count)
{
    uintptr_t high = stack->low;
    for (size_t i = 0; i < count; i++) {
        high = frames[i].slot > high ? frames[i].slot : high;
    }
    return high - stack->low < RAW_STACK_BYTES ? (uint32_t)(high - stack->low) + 8u : RAW_STACK_BYTES + 1u;
}

/* Where a thread was when a sample of it was taken. 0: not known. */
static uint32_t path_of(watched_event *e, const raw_sample *raw)
{
    unwind_frame frames[UNWIND_MAX];
    uint32_t inside = e->way == BY_TIMER ? raw->path : thread_call_path(e->tid, raw->time_ns);
    if (inside) { /* in a call that is recorded itself, then as now */
        return inside;
    }
    const unwind_stack stack = {raw->sp, raw->size, raw->stack};
    size_t count = unwind((unwind_registers){raw->pc, raw->sp, raw->fp}, &stack, frames, UNWIND_MAX);
    uint32_t needed = bytes_needed(&stack, frames, count), enough = 0;
    while (enough < SIZES - 1 && bytes_of(enough) < needed) {
        enough++;
    }
    e->needing[enough]++;
    e->samples++;
    /* What was not copied was read only now, when the thread may be elsewhere. */
    bool copied = bytes_of(enough) <= raw->asked && (raw->size == raw->asked || needed <= raw->size);
    return copied ? native_path(frames, count) : 0;
}

/* A timer's signal comes with the next interrupt of the clock at which the thread has its core: later, the less of the
 * core it has. That is made up for, so that samples are a period apart. */
static void steady_timer(watched_event *e)
{
    if (e->timed < TIMED_SAMPLES) {
        return;
    }
    uint64_t apart_ns = e->timed_ns / e->timed;
    e->timed = e->timed_ns = 0;
    uint64_t late = apart_ns > e->timer_ns ? apart_ns - e->timer_ns : 0;
    uint64_t least = period_ns / SHORTEST_PART, wanted = late + least < period_ns ? period_ns - late : least;
    uint64_t change = wanted > e->timer_ns ? wanted - e->timer_ns : e->timer_ns - wanted;
    if (change > period_ns / 8) {
        timer_ring_set_period(e->timer, wanted);
        e->timer_ns = wanted;
    }
}

/* Whether a thread runs on while its timer does not end: the program blocks the signal, or nobody knows why. */
static bool is_silent(watched_event *e)
{
    uint64_t cpu;
    if (!clock_thread_cpu_ns(e->tid, &cpu)) {
        return false;
    }
    e->silent_ns = e->silent_ns ? e->silent_ns : cpu;
    uint64_t periods = (cpu - e->silent_ns) / period_ns;
    return periods > SILENT_PERIODS || (periods > FEW_PERIODS && timer_samples_blocked(e->tid));
}

/* Has the kernel sample a thread that takes turns, for a while. */
static void leave_to_kernel(watched_event *e)
{
    uint32_t longer = e->kernel_samples * 4;
    if (kernel_ring_open(&e->kernel, e->tid, period_ns, bytes_of(e->size))) {
        timer_ring_set_period(e->timer, 0);
        e->kernel_samples = longer == 0 ? FIRST_KERNEL_SAMPLES : longer < MOST_KERNEL_SAMPLES ? longer : MOST_KERNEL_SAMPLES;
        e->kernel_left = e->kernel_samples;
        e->way = BY_KERNEL;
    }
}

/* Goes on by timer, to see whether the thread still takes turns. */
static void take_back(watched_event *e)
{
    raw_sample late;
    while (timer_ring_next(e->timer, &late)) {
    }
    kernel_ring_close(&e->kernel);
    timer_ring_set_stack(e->timer, bytes_of(e->size));
    timer_ring_set_period(e->timer, e->timer_ns);
    e->timed = e->timed_ns = 0;
    e->silent_ns = 0;
    e->turns = (core_turns){0};
    e->way = BY_TIMER;
}

/* Has the kernel sample a thread whose timer is of no use, or that runs on small stacks, or all where the program has taken
 * the signal for itself, whereupon there are no more samples: not any more, where the kernel does not allow it. */
static void look_after_timer(watched_event *e, size_t samples)
{
    bool any = samples > 0;
    e->silent_ns = any ? 0 : e->silent_ns;
    bool unfit = timer_ring_is_foreign(e->timer) || (!any && is_silent(e));
    if ((unfit && kernel_allowed) || (!any && !timer_samples_intact())) {
        end_event(e);
        begin_event(e, BY_KERNEL);
    } else if (kernel_allowed && core_turns_taken(&e->turns, e->tid, samples)) {
        leave_to_kernel(e);
    }
}

static void look_after_kernel(watched_event *e, size_t samples)
{
    if (e->timer == NULL || e->kernel_left > samples) {
        e->kernel_left -= e->timer ? samples : 0;
    } else {
        take_back(e);
    }
}

static bool next_sample(watched_event *e, raw_sample *raw)
{
    return (e->way == BY_TIMER && timer_ring_next(e->timer, raw)) ||
           (e->way == BY_KERNEL && kernel_ring_next(&e->kernel, raw));
}

static size_t take_samples(pid_t tid, native_sample *samples, size_t capacity)
{
    watched_event *e = event_of(tid);
    size_t count = 0, seen = 0;
    raw_sample raw;
    if (e == NULL) {
        return 0;
    }
    while (next_sample(e, &raw)) {
        uint32_t path = count < capacity ? path_of(e, &raw) : 0;
        if (path) {
            samples[count++] = (native_sample){raw.time_ns, raw.cpu_ns, path};
        }
        seen++;
        e->timed++;
        e->timed_ns += raw.cpu_ns;
    }
    e->runs = seen > 0;
    e->has_run = e->has_run || e->runs;
    settle(e);
    if (e->way == BY_TIMER) {
        steady_timer(e);
        look_after_timer(e, seen);
    } else if (e->way == BY_KERNEL) {
        look_after_kernel(e, seen);
    }
    return count;
}

/* What the rings of threads have room for: as many again where one runs, all where it ran and may again. */
static unsigned most_periods(void)
{
    unsigned most = TIMER_PERIODS << (SIZES - 1);
    for (size_t i = 0; i < event_count; i++) {
        unsigned room = (events[i].way == BY_TIMER ? TIMER_PERIODS : KERNEL_PERIODS) << (SIZES - 1 - events[i].size);
        room *= events[i].runs ? 1 : 2;
        if (events[i].way == BY_TIMER) {
            room = (unsigned)(room * timer_samples_apart(events[i].timer_ns) / period_ns);
        }
        most = events[i].has_run && room < most ? room : most;
    }
    return most;
}

/* The kernel tells stack pointer and instruction of a thread that waits in a system call. */
static uint32_t path_at_rest(pid_t tid)
{
    static uint8_t copy[RAW_STACK_BYTES];
    char name[64], text[256];
    uint32_t inside = thread_call_path(tid, UINT64_MAX);
    if (inside) {
        return inside;
    }
    snprintf(name, sizeof name, "/proc/self/task/%d/syscall", (int)tid);
    if (read_text(name, text, sizeof text) == 0 || text[0] == 'r') { /* it is running */
        return 0;
    }
    const char *last = strrchr(text, ' '); /* ... stack pointer, instruction */
    const char *before = last;
    while (before && before > text && before[-1] != ' ') {
        before--;
    }
    if (before == NULL || before == text) {
        return 0;
    }
    uintptr_t pc = strtoul(last + 1, NULL, 16), sp = strtoul(before, NULL, 16);
    enum memory_access access = memory_guarded_access();
    size_t size = sizeof copy;
    while (size >= 1024 && !memory_read(access, copy, sp, size)) {
        size /= 2;
    }
    if (size < 1024) {
        return 0;
    }
    unwind_frame frames[UNWIND_MAX];
    const unwind_stack stack = {sp, size, copy};
    size_t count = unwind((unwind_registers){pc, sp, 0}, &stack, frames, UNWIND_MAX);
    return native_path(frames, count);
}

static void forget_event(pid_t tid)
{
    for (size_t i = 0; i < event_count; i++) {
        if (events[i].tid == tid) {
            end_event(&events[i]);
            events[i] = events[--event_count];
            return;
        }
    }
}

static sampler_native source = {
    .take = take_samples, .path_at_rest = path_at_rest, .forget = forget_event, .most_periods = most_periods};

const char *native_samples_prepare(double rate_hz)
{
    const char *asked = getenv("SCALANA_NATIVE_SAMPLES");
    bool by_signal = asked && strcmp(asked, "signal") == 0, by_kernel = asked && strcmp(asked, "kernel") == 0;
    period_ns = (uint64_t)(1e9 / rate_hz);
    timer_samples_look_at_clock();
    source.period_ns = period_ns;
    kernel_allowed = !by_signal && kernel_samples_allowed(period_ns);
    bool timers = (!kernel_allowed || (!by_kernel && timer_samples_are_gentle(period_ns))) &&
                  timer_samples_prepare(thread_interrupted);
    first_way = timers ? BY_TIMER : BY_KERNEL;
    sampler_set_native(&source);
    return timers ? "timers" : kernel_allowed ? "kernel" : "none";
}

void native_samples_after_fork(void)
{
    timer_samples_after_fork();
    while (event_count > 0) {
        watched_event *e = &events[--event_count];
        if (e->way == BY_KERNEL) {
            kernel_ring_close(&e->kernel);
        }
    }
}
