#include "threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "clocks.h"

#define THREADS 512
#define CPU_CLOCK_SHARE 300u /* the CPU clock may cost one in so many ns */
#define SHORTEST_NS 20000u
#define LONGEST_NS 400000u

static native_thread *threads[THREADS];
static unsigned thread_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread native_thread *self __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t reckon_ns;
static double ns_per_tick; /* of the processor's counter; 0 where it is not used */
static uint64_t anchor_ticks_most; /* further from its anchor the counter is not trusted */

/* ---- the wall clock, by the processor's counter ----
 *
 * Reading CLOCK_MONOTONIC costs several times as much as reading the counter from which the kernel makes it. */

#define ANCHOR_NS 20000000u
#define SHORTEST_RATE_NS 5000000u

#ifdef __x86_64__
static uint64_t ticks(void)
{
    return __rdtsc();
}

/* Whether the counter runs at one rate on all cores, in all states, and is cheap to read here. */
static bool counter_is_good(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || !(d & 1u << 8)) {
        return false;
    }
    uint64_t counter = UINT64_MAX, clock = UINT64_MAX; /* the least of several: another program may come between */
    for (int round = 0; round < 8; round++) {
        uint64_t begin = clock_wall_ns();
        for (int i = 0; i < 64; i++) {
            (void)*(volatile uint64_t *)&(uint64_t){ticks()};
        }
        uint64_t middle = clock_wall_ns();
        for (int i = 0; i < 64; i++) {
            clock_wall_ns();
        }
        uint64_t end = clock_wall_ns();
        counter = middle - begin < counter ? middle - begin : counter;
        clock = end - middle < clock ? end - middle : clock;
    }
    return counter * 5 < clock * 4;
}
#else
static uint64_t ticks(void)
{
    return 0;
}

static bool counter_is_good(void)
{
    return false;
}
#endif

static bool use_counter;

static uint64_t wall_now(native_thread *t)
{
    if (!use_counter) {
        return clock_wall_ns();
    }
    uint64_t now_ticks = ticks(), passed = now_ticks - t->anchor_ticks;
    if (passed < __atomic_load_n(&anchor_ticks_most, __ATOMIC_RELAXED)) {
        return t->anchor_ns + (uint64_t)((double)passed * ns_per_tick);
    }
    uint64_t now = clock_wall_ns();
    now_ticks = ticks();
    if (t->anchor_ns && now - t->anchor_ns < SHORTEST_RATE_NS) {
        return now; /* too soon to tell the rate */
    }
    if (t->anchor_ns && now - t->anchor_ns < UINT64_C(100) * ANCHOR_NS) {
        double rate = (double)(now - t->anchor_ns) / (double)(now_ticks - t->anchor_ticks);
        __atomic_store(&ns_per_tick, &rate, __ATOMIC_RELAXED);
        __atomic_store_n(&anchor_ticks_most, (uint64_t)(ANCHOR_NS / rate), __ATOMIC_RELAXED);
    }
    t->anchor_ns = now;
    t->anchor_ticks = now_ticks;
    return now;
}

static const recorder_api *recorder;

void threads_use(const recorder_api *api)
{
    recorder = api;
}

static void ended(void *thread)
{
    native_thread *t = thread;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < thread_count; i++) {
        if (threads[i] == t) {
            threads[i] = threads[--thread_count];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    self = NULL;
    if (t->totals && recorder && t->generation == recorder->generation()) {
        thread_totals_end(t->totals, recorder);
    }
    free(t->totals);
    free(t->calls);
    free(t);
}

static void prepare(void)
{
    pthread_key_create(&key, ended);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_wall_ns();
        clock_own_cpu_ns();
        uint64_t cost = clock_wall_ns() - before;
        best = cost < best ? cost : best;
    }
    use_counter = counter_is_good();
    reckon_ns = best * CPU_CLOCK_SHARE;
    reckon_ns = reckon_ns < SHORTEST_NS ? SHORTEST_NS : reckon_ns > LONGEST_NS ? LONGEST_NS : reckon_ns;
}

native_thread *thread_self(void)
{
    if (self) {
        return self;
    }
    pthread_once(&once, prepare);
    native_thread *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->tid = (pid_t)syscall(SYS_gettid);
    t->calls = call_cache_new();
    if (t->calls == NULL) {
        free(t);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (thread_count < THREADS) {
        t->totals = calloc(1, sizeof *t->totals);
        threads[thread_count++] = t;
    }
    pthread_mutex_unlock(&lock);
    pthread_setspecific(key, t);
    self = t;
    return t;
}

uint32_t thread_call_path(pid_t tid, uint64_t then_ns)
{
    uint32_t path = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < thread_count; i++) {
        if (threads[i]->tid == tid) {
            path = __atomic_load_n(&threads[i]->path, __ATOMIC_ACQUIRE);
            /* The clock was read last when the call began, or later than that: when it, or another one, ended. */
            if (__atomic_load_n(&threads[i]->wall_ns, __ATOMIC_RELAXED) > then_ns) {
                path = 0;
            }
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return path;
}

void threads_collect(void)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < thread_count; i++) {
        if (threads[i]->totals && threads[i]->generation == recorder->generation()) {
            thread_totals_collect(threads[i]->totals, recorder);
        }
    }
    pthread_mutex_unlock(&lock);
}

void threads_in_calls(void (*visit)(const native_thread *thread, void *data), void *data)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < thread_count; i++) {
        if (__atomic_load_n(&threads[i]->call.enter_ns, __ATOMIC_ACQUIRE)) {
            visit(threads[i], data);
        }
    }
    pthread_mutex_unlock(&lock);
}

void thread_clocks(native_thread *t, uint64_t *wall_ns, uint64_t *cpu_ns)
{
    uint64_t now = wall_now(t), cpu;
    now = now < t->wall_ns ? t->wall_ns : now;
    uint64_t passed = now - t->wall_ns;
    if (passed < reckon_ns && now - t->read_ns < reckon_ns * 4) {
        cpu = t->cpu_ns + passed;
    } else {
        cpu = clock_own_cpu_ns();
        t->read_ns = now;
        if (cpu < t->cpu_ns) { /* what was reckoned was more than there was */
            cpu = t->cpu_ns;
        }
    }
    __atomic_store_n(&t->wall_ns, now, __ATOMIC_RELAXED);
    t->cpu_ns = cpu;
    *wall_ns = now;
    *cpu_ns = cpu;
}

void threads_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    thread_totals_after_fork();
    thread_count = 0;
    if (self) {
        self->tid = (pid_t)syscall(SYS_gettid);
        threads[thread_count++] = self;
    }
}
