#include "signal_samples.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "clocks.h"

#define SNAPSHOTS 256
#define TIMERS 1024
#define PAGE 4096u

enum { FREE, FILLING, READY };

typedef struct {
    _Atomic int state;
    pid_t tid;
    signal_snapshot data;
} place;

static place places[SNAPSHOTS];
static struct {
    pid_t tid;
    bool armed;
    timer_t timer;
} timers[TIMERS];
static size_t timer_count;
static int number;
static uint64_t period;

/* Copies what is mapped of the stack, up to the size of a snapshot: page by page, for the last may be its end. */
static size_t copy_stack(uint8_t *to, uintptr_t sp)
{
    struct iovec remote[SIGNAL_STACK / PAGE + 1], local = {to, SIGNAL_STACK};
    size_t count = 0, left = SIGNAL_STACK;
    for (uintptr_t at = sp; left > 0 && count < sizeof remote / sizeof *remote; count++) {
        size_t size = PAGE - (at & (PAGE - 1));
        size = size < left ? size : left;
        remote[count] = (struct iovec){(void *)at, size};
        at += size;
        left -= size;
    }
    long copied = syscall(SYS_process_vm_readv, getpid(), &local, 1L, remote, count, 0L);
    return copied > 0 ? (size_t)copied : 0;
}

static void handle(int signal_number, siginfo_t *info, void *context)
{
    int error = errno;
    (void)signal_number, (void)info;
    for (unsigned i = 0; i < SNAPSHOTS; i++) {
        place *p = &places[i];
        int expected = FREE;
        if (atomic_compare_exchange_strong(&p->state, &expected, FILLING)) {
#ifdef __x86_64__
            const ucontext_t *at = context;
            p->data.pc = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
            p->data.sp = (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
            p->data.fp = (uintptr_t)at->uc_mcontext.gregs[REG_RBP];
#endif
            p->tid = (pid_t)syscall(SYS_gettid);
            p->data.time_ns = clock_wall_ns();
            p->data.size = copy_stack(p->data.stack, p->data.sp);
            atomic_store(&p->state, READY);
            break;
        }
    }
    errno = error;
}

bool signal_samples_prepare(uint64_t period_ns)
{
    struct sigaction before, ours;
    period = period_ns;
    for (int candidate = SIGRTMAX - 2; candidate > SIGRTMIN + 2 && number == 0; candidate--) {
        if (sigaction(candidate, NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
            memset(&ours, 0, sizeof ours);
            ours.sa_sigaction = handle;
            ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
            sigfillset(&ours.sa_mask);
            number = sigaction(candidate, &ours, NULL) == 0 ? candidate : 0;
        }
    }
    return number != 0;
}

void signal_samples_watch(pid_t tid)
{
    for (size_t i = 0; i < timer_count; i++) {
        if (timers[i].tid == tid) {
            return;
        }
    }
    if (number == 0 || timer_count == TIMERS) {
        return;
    }
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number;
    event._sigev_un._tid = tid;
    timers[timer_count].tid = tid;
    timers[timer_count].armed = timer_create(clock_of_thread(tid), &event, &timers[timer_count].timer) == 0;
    if (timers[timer_count].armed) {
        struct timespec step = {(time_t)(period / 1000000000u), (long)(period % 1000000000u)};
        struct itimerspec times = {step, step};
        timer_settime(timers[timer_count].timer, 0, &times, NULL);
    }
    timer_count++;
}

const signal_snapshot *signal_samples_take(pid_t tid)
{
    static signal_snapshot taken;
    place *oldest = NULL;
    for (unsigned i = 0; i < SNAPSHOTS; i++) {
        place *p = &places[i];
        if (atomic_load(&p->state) == READY && p->tid == tid &&
            (oldest == NULL || p->data.time_ns < oldest->data.time_ns)) {
            oldest = p;
        }
    }
    if (oldest == NULL) {
        return NULL;
    }
    taken = oldest->data;
    atomic_store(&oldest->state, FREE);
    return &taken;
}

void signal_samples_forget(pid_t tid)
{
    while (signal_samples_take(tid)) {
    }
    for (size_t i = 0; i < timer_count; i++) {
        if (timers[i].tid == tid) {
            if (timers[i].armed) {
                timer_delete(timers[i].timer);
            }
            timers[i] = timers[--timer_count];
            return;
        }
    }
}

void signal_samples_after_fork(void)
{
    timer_count = 0;
    for (unsigned i = 0; i < SNAPSHOTS; i++) {
        atomic_store(&places[i].state, FREE);
    }
}
