#include "threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clocks.h"

#define THREADS 512
#define CPU_CLOCK_SHARE 64u /* the CPU clock may cost one in so many ns */
#define SHORTEST_NS 10000u
#define LONGEST_NS 100000u

static native_thread *threads[THREADS];
static unsigned thread_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread native_thread *self __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t reckon_ns;

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
        threads[thread_count++] = t;
    }
    pthread_mutex_unlock(&lock);
    pthread_setspecific(key, t);
    self = t;
    return t;
}

uint32_t thread_call_path(pid_t tid)
{
    uint32_t path = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < thread_count; i++) {
        if (threads[i]->tid == tid) {
            path = __atomic_load_n(&threads[i]->path, __ATOMIC_RELAXED);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return path;
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
    uint64_t now = clock_wall_ns(), cpu;
    uint64_t passed = now - t->wall_ns;
    if (passed < reckon_ns && now - t->read_ns < reckon_ns * 8) {
        cpu = t->cpu_ns + passed;
    } else {
        cpu = clock_own_cpu_ns();
        t->read_ns = now;
        if (cpu < t->cpu_ns) { /* what was reckoned was more than there was */
            cpu = t->cpu_ns;
        }
    }
    t->wall_ns = now;
    t->cpu_ns = cpu;
    *wall_ns = now;
    *cpu_ns = cpu;
}

void threads_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    thread_count = 0;
    if (self) {
        self->tid = (pid_t)syscall(SYS_gettid);
        threads[thread_count++] = self;
    }
}
