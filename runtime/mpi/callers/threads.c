#include "callers/threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 512

static native_thread *threads[THREADS];
static unsigned thread_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread native_thread *self __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

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
    if (t->known_at) {
        *t->known_at = NULL;
    }
    if (t->totals && recorder && t->generation == *recorder->generation) {
        thread_totals_end(t->totals, recorder);
    }
    free(t->totals);
    call_memory_free(t->memory);
    free(t);
}

static void prepare(void)
{
    pthread_key_create(&key, ended);
    thread_clocks_prepare();
}

native_thread *thread_self(void)
{
    if (self) {
        return self;
    }
    pthread_once(&once, prepare);
    native_thread *t = aligned_alloc(LINE_BYTES, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    *t = (native_thread){.tid = (pid_t)syscall(SYS_gettid), .memory = call_memory_new(&t->history)};
    if (t->memory == NULL) {
        free(t);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (thread_count < THREADS) {
        t->totals = thread_totals_new();
        threads[thread_count++] = t;
    }
    pthread_mutex_unlock(&lock);
    pthread_setspecific(key, t);
    self = t;
    return t;
}

uint32_t thread_interrupted(uint64_t now_ns)
{
    if (self == NULL) {
        return 0;
    }
    thread_clocks_interrupted(&self->clocks, now_ns);
    return __atomic_load_n(&self->path, __ATOMIC_RELAXED);
}

uint32_t thread_call_path(pid_t tid, uint64_t then_ns)
{
    uint32_t path = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < thread_count; i++) {
        if (threads[i]->tid == tid) {
            path = __atomic_load_n(&threads[i]->path, __ATOMIC_ACQUIRE);
            /* The clock was read last when the call began, or later than that: when it, or another one, ended. */
            if (__atomic_load_n(&threads[i]->clocks.wall_ns, __ATOMIC_RELAXED) > then_ns) {
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
        if (threads[i]->totals && threads[i]->generation == *recorder->generation) {
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
