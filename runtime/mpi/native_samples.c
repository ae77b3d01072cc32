#include "native_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "native_paths.h"
#include "sampler.h"
#include "signal_samples.h"
#include "threads.h"
#include "unwind.h"

/* How much of a stack is copied with a sample: as much as nearly all of the thread's latest samples needed. Copying
 * eight kilobytes costs as much again as the interrupt. */
#define STACK_BYTES 8192u
#define LEAST_STACK_BYTES 1024u
#define SIZES 4u             /* from the least by twos to all */
#define SETTLED_SAMPLES 64u  /* looked at before less is copied */
#define LONGEST_SETTLING 4096u
#define MOST_DEEPER_PART 128u /* one sample in so many may need more than is copied, and is lost */
#define RING_PAGES 32u       /* power of two */
#define LEAST_PERIODS 8u     /* that rings have room for, and as many again, if whole stacks are copied */
#define THREADS 1024

/* perf's numbers of registers on x86 (asm/perf_regs.h). */
#define PERF_BP 6
#define PERF_SP 7
#define PERF_IP 8

typedef struct {
    pid_t tid;
    int fd; /* -1: could not be opened */
    struct perf_event_mmap_page *ring;
    uint32_t size;             /* number of the size that is copied with each sample */
    uint32_t needing[SIZES];   /* samples since that was looked at, by the least size that holds what they needed */
    uint32_t samples, settle;  /* since then, and how many there are to be before it is looked at again */
    bool has_run, runs;        /* at any time, and when samples were taken last */
} watched_event;

static watched_event events[THREADS];
static size_t event_count;
static uint64_t period_ns;
static size_t page;

static int open_event(pid_t tid, uint32_t stack_bytes)
{
    struct perf_event_attr a;
    memset(&a, 0, sizeof a);
    a.size = sizeof a;
    a.type = PERF_TYPE_SOFTWARE;
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = period_ns;
    a.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    a.sample_regs_user = 1u << PERF_BP | 1u << PERF_SP | 1u << PERF_IP;
    a.sample_stack_user = stack_bytes;
    a.exclude_hv = 1;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    /* In system calls and page faults too, at the user's registers, where that is allowed. */
    int fd = (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        a.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (fd >= 0) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 512);
        if (high >= 0) {
            close(fd);
            fd = high;
        }
    }
    return fd;
}

static size_t ring_bytes(void)
{
    return (size_t)RING_PAGES * page;
}

/* By system calls proper: MPI libraries put hooks of their own into mmap and munmap, which crash in a forked child. */
static void *map_ring(int fd)
{
    return (void *)syscall(SYS_mmap, NULL, page + ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void unmap_ring(void *ring)
{
    syscall(SYS_munmap, ring, page + ring_bytes());
}

static uint32_t bytes_of(uint32_t size)
{
    return LEAST_STACK_BYTES << size;
}

/* Begins to sample a thread. False where the kernel does not allow it. */
static bool begin_event(watched_event *e, uint32_t size)
{
    int fd = open_event(e->tid, bytes_of(size));
    void *ring = fd >= 0 ? map_ring(fd) : MAP_FAILED;
    if (ring == MAP_FAILED) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    e->fd = fd;
    e->ring = ring;
    e->size = size;
    return true;
}

static void end_event(const watched_event *e)
{
    if (e->ring) {
        unmap_ring(e->ring);
    }
    if (e->fd >= 0) {
        close(e->fd);
    }
}

/* Samples a thread with another size of its stack, if the kernel allows that; a sample may be lost over it. */
static void resize(watched_event *e, uint32_t size)
{
    const watched_event before = *e;
    if (begin_event(e, size)) {
        end_event(&before);
    }
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
            return &events[i];
        }
    }
    if (event_count == THREADS) {
        return NULL;
    }
    watched_event *e = &events[event_count++];
    *e = (watched_event){.tid = tid, .fd = -1, .settle = SETTLED_SAMPLES};
    begin_event(e, SIZES - 1);
    return e;
}

static void copy_out(const watched_event *e, uint64_t at, void *to, size_t size)
{
    const uint8_t *data = (const uint8_t *)e->ring + page;
    size_t start = at & (ring_bytes() - 1);
    size_t first = size < ring_bytes() - start ? size : ring_bytes() - start;
    memcpy(to, data + start, first);
    memcpy((uint8_t *)to + first, data, size - first);
}

/* Of the stack of a thread, from the stack pointer to the outermost return address. */
static uint32_t bytes_needed(const unwind_stack *stack, const unwind_frame *frames, size_t count)
{
    uintptr_t high = stack->low;
    for (size_t i = 0; i < count; i++) {
        high = frames[i].slot > high ? frames[i].slot : high;
    }
    return high - stack->low < STACK_BYTES ? (uint32_t)(high - stack->low) + 8u : STACK_BYTES + 1u;
}

/* One PERF_RECORD_SAMPLE: time, ABI of the registers, BP, SP, IP (by number), size of the stack, stack, bytes of it. */
static bool read_sample(watched_event *e, const uint8_t *record, size_t size, native_sample *sample)
{
    uint64_t words[6];
    if (size < sizeof words) {
        return false;
    }
    memcpy(words, record, sizeof words);
    if (words[1] == PERF_SAMPLE_REGS_ABI_NONE) {
        return false;
    }
    uint64_t copied = words[5], filled = 0;
    if (size < sizeof words + copied + (copied ? 8 : 0)) {
        return false;
    }
    if (copied) {
        memcpy(&filled, record + sizeof words + copied, sizeof filled);
    }
    unwind_frame frames[UNWIND_MAX];
    const unwind_stack stack = {words[3], filled < copied ? filled : copied, record + sizeof words};
    size_t count = unwind((unwind_registers){words[4], words[3], words[2]}, &stack, frames, UNWIND_MAX);
    uint32_t needed = bytes_needed(&stack, frames, count), enough = 0;
    while (enough < SIZES - 1 && bytes_of(enough) < needed) {
        enough++;
    }
    e->needing[enough]++;
    e->samples++;
    if (enough > e->size) {
        return false; /* the rest was read only now, when the thread may be elsewhere */
    }
    sample->time_ns = words[0];
    sample->path = native_path(frames, count);
    return sample->path != 0;
}

static size_t take_samples(pid_t tid, native_sample *samples, size_t capacity)
{
    static uint8_t record[STACK_BYTES + 256];
    watched_event *e = event_of(tid);
    size_t count = 0;
    if (e == NULL || e->ring == NULL) {
        return 0;
    }
    uint64_t head = __atomic_load_n(&e->ring->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = e->ring->data_tail;
    e->runs = tail < head;
    e->has_run = e->has_run || e->runs;
    while (tail < head) {
        struct perf_event_header header;
        copy_out(e, tail, &header, sizeof header);
        if (header.size < sizeof header) {
            tail = head;
            break;
        }
        size_t size = header.size - sizeof header;
        if (header.type == PERF_RECORD_SAMPLE && size <= sizeof record && count < capacity) {
            uint64_t time_ns;
            copy_out(e, tail + sizeof header, record, size);
            memcpy(&time_ns, record, sizeof time_ns);
            uint32_t inside = thread_call_path(tid, time_ns);
            if (inside) { /* in a call that is recorded itself, then as now */
                samples[count++] = (native_sample){time_ns, inside};
            } else if (read_sample(e, record, size, &samples[count])) {
                count++;
            }
        }
        tail += header.size;
    }
    __atomic_store_n(&e->ring->data_tail, tail, __ATOMIC_RELEASE);
    settle(e);
    return count;
}

/* What the rings of threads have room for: as many again where one runs, all where it ran and may again. */
static unsigned most_periods(void)
{
    unsigned most = LEAST_PERIODS << (SIZES - 1);
    for (size_t i = 0; i < event_count; i++) {
        unsigned room = LEAST_PERIODS << (SIZES - 1 - events[i].size);
        room *= events[i].runs ? 1 : 2;
        most = events[i].has_run && room < most ? room : most;
    }
    return most;
}

static unsigned most_signal_periods(void)
{
    return LEAST_PERIODS;
}

static size_t take_signal_samples(pid_t tid, native_sample *samples, size_t capacity)
{
    const signal_snapshot *taken;
    size_t count = 0;
    signal_samples_watch(tid);
    while ((taken = signal_samples_take(tid)) != NULL) {
        if (count == capacity) {
            continue;
        }
        uint32_t path = thread_call_path(tid, taken->time_ns);
        if (path == 0) {
            unwind_frame frames[UNWIND_MAX];
            const unwind_stack stack = {taken->sp, taken->size, taken->stack};
            path = native_path(frames, unwind((unwind_registers){taken->pc, taken->sp, taken->fp}, &stack, frames,
                                              UNWIND_MAX));
        }
        if (path) {
            samples[count++] = (native_sample){taken->time_ns, path};
        }
    }
    return count;
}

/* The kernel tells stack pointer and instruction of a thread that waits in a system call. */
static uint32_t path_at_rest(pid_t tid)
{
    static uint8_t copy[STACK_BYTES];
    char name[64], text[256];
    uint32_t inside = thread_call_path(tid, UINT64_MAX);
    if (inside) {
        return inside;
    }
    snprintf(name, sizeof name, "/proc/self/task/%d/syscall", (int)tid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0 || text[0] == 'r') {
        return 0;
    }
    text[n] = 0;
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

static sampler_native by_kernel = {.take = take_samples,
                                   .path_at_rest = path_at_rest,
                                   .forget = forget_event,
                                   .most_periods = most_periods};
static sampler_native by_signal = {.take = take_signal_samples,
                                   .path_at_rest = path_at_rest,
                                   .forget = signal_samples_forget,
                                   .most_periods = most_signal_periods};

const char *native_samples_prepare(double rate_hz)
{
    const char *wanted = getenv("SCALANA_NATIVE_SAMPLES");
    page = (size_t)sysconf(_SC_PAGESIZE);
    period_ns = (uint64_t)(1e9 / rate_hz);
    by_kernel.period_ns = by_signal.period_ns = period_ns;
    int fd = wanted && strcmp(wanted, "signal") == 0 ? -1 : open_event(0, STACK_BYTES);
    if (fd >= 0) {
        close(fd);
        sampler_set_native(&by_kernel);
        return "native";
    }
    sampler_set_native(&by_signal);
    return signal_samples_prepare(period_ns) ? "signal" : "none";
}

void native_samples_after_fork(void)
{
    signal_samples_after_fork();
    while (event_count > 0) {
        forget_event(events[event_count - 1].tid);
    }
}
