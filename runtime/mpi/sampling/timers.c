#include "sampling/timers.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clocks.h"
#include "base/memory.h"
#include "sampling/text_file.h"

#define RINGS 1024
#define PAGE 4096u
#define MOST_LOOKS 16u /* for where a thread's stack lies */
#define NOBODY 0
#define GIVEN_UP (-1)
#define SKIPPED UINT32_MAX /* what follows begins anew at the start of the ring */

/* A sample in a ring. Behind it lies what was copied of the stack, up to a multiple of eight bytes. */
typedef struct {
    uint64_t time_ns, cpu_ns;
    uintptr_t pc, sp, fp, thread_pointer;
    uint32_t path, asked, size, unused;
} ring_entry;

/* The thread's own signal handler writes, the sampler reads. */
struct timer_ring {
    _Atomic pid_t tid; /* NOBODY: of no thread; GIVEN_UP: of one that may yet be in the handler */
    _Atomic uint32_t stack_bytes;
    _Atomic uint64_t period_ns;
    _Atomic uint64_t written, read;            /* bytes */
    _Atomic uintptr_t stack_low, stack_high;   /* between them its stack is mapped as long as it lives */
    bool foreign;                              /* it was seen on a stack that is not its own */
    unsigned looks;                            /* at where that is */
    uint8_t *data;                             /* stays mapped: a signal may come late */
    timer_t timer;
};

static timer_ring rings[RINGS];
static bool prepared;
static uint64_t tick_ns; /* from one interrupt of the clock to the next; 0: not known */
static uint32_t (*call_path)(uint64_t now_ns);

/* ---- where this is without risk ---- */

/* On cores that do without the interrupt of the clock, a timer of CPU time would bring it back. */
static bool has_silent_cores(void)
{
    char text[64];
    return read_text("/sys/devices/system/cpu/nohz_full", text, sizeof text) > 0 && text[0] >= '0' && text[0] <= '9';
}

void timer_samples_look_at_clock(void)
{
    struct timespec tick;
    bool known = clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_sec == 0;
    tick_ns = known ? (uint64_t)tick.tv_nsec : 0;
}

uint64_t timer_samples_apart(uint64_t period_ns)
{
    return period_ns < tick_ns ? tick_ns : period_ns;
}

bool timer_samples_are_gentle(uint64_t period_ns)
{
    struct utsname system;
    unsigned major = 0, minor = 0;
#ifndef __x86_64__
    return false;
#endif
    return uname(&system) == 0 && sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 10)) && tick_ns && tick_ns <= period_ns && !has_silent_cores() &&
           memory_guarded_access() == MEMORY_REMOTE;
}

/* ---- in the signal handler ----
 *
 * A program that works on much memory leaves nothing of the kernel's in the caches: any system call takes 5 to 25
 * microseconds then. There is none here once it is known where the stack lies. */

/* Copies what is mapped of a stack: page by page, for the last may be its end. */
static size_t copy_guarded(uint8_t *to, uintptr_t sp, size_t size)
{
    struct iovec remote[RAW_STACK_BYTES / PAGE + 1], local = {to, size};
    size_t count = 0;
    for (uintptr_t at = sp; size > 0 && count < sizeof remote / sizeof *remote; count++) {
        size_t part = PAGE - (at & (PAGE - 1));
        part = part < size ? part : size;
        remote[count] = (struct iovec){(void *)at, part};
        at += part;
        size -= part;
    }
    long copied = syscall(SYS_process_vm_readv, getpid(), &local, 1L, remote, count, 0L);
    return copied > 0 ? (size_t)copied : 0;
}

/* Copies word by word what the thread itself may be in the midst of writing. Sanitizers know nothing of whose it is. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static size_t copy_own(uint8_t *to, uintptr_t sp,
                                                                                      size_t size)
{
    const volatile uint64_t *from = (const volatile uint64_t *)sp;
    volatile uint64_t *copy = (volatile uint64_t *)(void *)to;
    for (size_t i = 0; i < size / sizeof *from; i++) {
        copy[i] = from[i];
    }
    return size / sizeof *from * sizeof *from;
}

static size_t copy_stack(const timer_ring *ring, uint8_t *to, uintptr_t sp, size_t size)
{
    uintptr_t high = atomic_load(&ring->stack_high), low = atomic_load(&ring->stack_low);
    bool changing = atomic_load(&ring->stack_high) != high;
    if (changing || sp < low || sp >= high || sp % sizeof(uint64_t) != 0) {
        return copy_guarded(to, sp, size);
    }
    return copy_own(to, sp, size < high - sp ? size : high - sp);
}

static size_t entry_bytes(size_t stack)
{
    return sizeof(ring_entry) + ((stack + 7) & ~(size_t)7);
}

/* Room for an entry without a break. NULL when the ring is full. */
static ring_entry *room_for(timer_ring *ring, size_t bytes, uint64_t *at)
{
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    size_t start = written % TIMER_RING_BYTES, left = TIMER_RING_BYTES - start, skip = left < bytes ? left : 0;
    if (written + skip + bytes - atomic_load_explicit(&ring->read, memory_order_acquire) > TIMER_RING_BYTES) {
        return NULL;
    }
    if (skip >= sizeof(ring_entry)) {
        ((ring_entry *)(ring->data + start))->size = SKIPPED;
    }
    *at = written + skip;
    return (ring_entry *)(ring->data + *at % TIMER_RING_BYTES);
}

static uintptr_t thread_pointer(void)
{
    uintptr_t pointer = 0;
#ifdef __x86_64__
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
#endif
    return pointer;
}

static void take(timer_ring *ring, const ucontext_t *context, unsigned periods)
{
    uint64_t now = clock_wall_ns();
    uint32_t path = call_path(now), asked = path ? 0 : atomic_load_explicit(&ring->stack_bytes, memory_order_relaxed);
    uint64_t at;
    ring_entry *entry = room_for(ring, entry_bytes(asked), &at);
    if (entry == NULL) {
        return;
    }
    *entry = (ring_entry){.time_ns = now,
                          .cpu_ns = periods * atomic_load_explicit(&ring->period_ns, memory_order_relaxed),
                          .thread_pointer = thread_pointer(),
                          .path = path,
                          .asked = asked};
#ifdef __x86_64__
    entry->pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    entry->sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    entry->fp = (uintptr_t)context->uc_mcontext.gregs[REG_RBP];
#else
    (void)context;
#endif
    if (asked) {
        entry->size = (uint32_t)copy_stack(ring, (uint8_t *)(entry + 1), entry->sp, asked);
    }
    atomic_store_explicit(&ring->written, at + entry_bytes(entry->size), memory_order_release);
}

static void handle(int number, siginfo_t *info, void *context)
{
    unsigned row = (unsigned)info->si_value.sival_int;
    int error = errno;
    (void)number;
    if (info->si_code == SI_TIMER && row < RINGS &&
        atomic_load_explicit(&rings[row].tid, memory_order_acquire) > NOBODY) {
        take(&rings[row], context, 1 + (info->si_overrun > 0 ? (unsigned)info->si_overrun : 0));
    }
    errno = error;
}

/* ---- in the sampler ---- */

bool timer_samples_prepare(uint32_t (*interrupted)(uint64_t now_ns))
{
    struct sigaction before, ours;
    call_path = interrupted;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigfillset(&ours.sa_mask);
    prepared = sigaction(SIGURG, NULL, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
               (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) && sigaction(SIGURG, &ours, NULL) == 0;
    return prepared;
}

bool timer_samples_intact(void)
{
    struct sigaction now;
    return prepared && sigaction(SIGURG, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == handle;
}

bool timer_samples_blocked(pid_t tid)
{
    static char text[32768]; /* its groups come first */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)tid);
    const char *blocked = read_text(path, text, sizeof text) > 0 ? strstr(text, "\nSigBlk:") : NULL;
    return blocked && strtoull(blocked + sizeof "\nSigBlk:" - 1, NULL, 16) >> (SIGURG - 1) & 1;
}

static timer_ring *unused_ring(void)
{
    for (size_t i = 0; i < RINGS; i++) {
        if (atomic_load_explicit(&rings[i].tid, memory_order_relaxed) == NOBODY) {
            return &rings[i];
        }
    }
    return NULL;
}

timer_ring *timer_ring_open(pid_t tid, uint64_t period_ns, uint32_t stack_bytes)
{
    timer_ring *ring = prepared ? unused_ring() : NULL;
    if (ring && ring->data == NULL) { /* by a system call proper: libraries of MPI put hooks of their own into mmap */
        void *data = (void *)syscall(SYS_mmap, NULL, TIMER_RING_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ring->data = data == MAP_FAILED ? NULL : data;
    }
    if (ring == NULL || ring->data == NULL) {
        return NULL;
    }
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event.sigev_value.sival_int = (int)(ring - rings);
    event._sigev_un._tid = tid;
    if (timer_create(clock_of_thread(tid), &event, &ring->timer) != 0) {
        return NULL;
    }
    atomic_store(&ring->written, 0);
    atomic_store(&ring->read, 0);
    atomic_store(&ring->stack_bytes, stack_bytes);
    atomic_store(&ring->stack_high, 0);
    atomic_store(&ring->stack_low, 0);
    ring->foreign = false;
    ring->looks = 0;
    atomic_store_explicit(&ring->tid, tid, memory_order_release);
    timer_ring_set_period(ring, period_ns);
    return ring;
}

void timer_ring_close(timer_ring *ring)
{
    uint64_t cpu;
    timer_delete(ring->timer);
    atomic_store(&ring->tid, clock_thread_cpu_ns(atomic_load(&ring->tid), &cpu) ? GIVEN_UP : NOBODY);
}

void timer_ring_set_period(timer_ring *ring, uint64_t period_ns)
{
    atomic_store_explicit(&ring->period_ns, period_ns, memory_order_relaxed);
    const struct timespec step = {(time_t)(period_ns / 1000000000u), (long)(period_ns % 1000000000u)};
    const struct itimerspec times = {step, step};
    timer_settime(ring->timer, 0, &times, NULL);
}

void timer_ring_set_stack(timer_ring *ring, uint32_t stack_bytes)
{
    atomic_store_explicit(&ring->stack_bytes, stack_bytes, memory_order_relaxed);
}

/* Finds the memory that holds a sample's stack, if that is the thread's own: the first thread's has a name, others have the
 * thread's control block at their end and a guard below. What a program makes itself may lie beside these, and be
 * unmapped at any time. */
static void find_stack(timer_ring *ring, const ring_entry *entry)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    bool first = atomic_load(&ring->tid) == getpid(), found = false;
    uintptr_t low, high, guard_high = 0;
    char line[512], access[5];
    ring->looks++;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &low, &high, access) != 3) {
            continue;
        }
        found = entry->sp >= low && entry->sp < high;
        if (found) {
            bool with_block = !first && entry->thread_pointer > entry->sp && entry->thread_pointer < high;
            bool named = first && strstr(line, "[stack]");
            ring->foreign = ring->foreign || !(with_block || named);
            if (named || (with_block && low == guard_high)) {
                atomic_store(&ring->stack_high, 0);
                atomic_store(&ring->stack_low, low);
                atomic_store(&ring->stack_high, named ? high : entry->thread_pointer);
            }
        }
        guard_high = strncmp(access, "---", 3) == 0 ? high : 0;
    }
    if (maps) {
        fclose(maps);
    }
}

bool timer_ring_is_foreign(const timer_ring *ring)
{
    return ring->foreign;
}

bool timer_ring_next(timer_ring *ring, raw_sample *sample)
{
    static uint8_t stack[RAW_STACK_BYTES];
    uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
    if (read == written) {
        return false;
    }
    size_t left = TIMER_RING_BYTES - read % TIMER_RING_BYTES;
    const ring_entry *entry = (const ring_entry *)(ring->data + read % TIMER_RING_BYTES);
    if (left < sizeof *entry || entry->size == SKIPPED) {
        read += left;
        entry = (const ring_entry *)ring->data;
    }
    uintptr_t low = atomic_load(&ring->stack_low), high = atomic_load(&ring->stack_high);
    if (entry->asked && (entry->sp < low || entry->sp >= high) && ring->looks < MOST_LOOKS) {
        find_stack(ring, entry);
    }
    *sample = (raw_sample){entry->time_ns, entry->cpu_ns, entry->pc,   entry->sp,   entry->fp,
                           entry->path,    entry->asked,  entry->size, stack};
    memcpy(stack, entry + 1, entry->size);
    atomic_store_explicit(&ring->read, read + entry_bytes(entry->size), memory_order_release);
    return true;
}

void timer_samples_after_fork(void)
{
    for (size_t i = 0; i < RINGS; i++) {
        atomic_store(&rings[i].tid, NOBODY);
    }
}
