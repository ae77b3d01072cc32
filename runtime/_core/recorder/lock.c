#include "recorder/lock.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool on;
_Atomic uint64_t recorder_generation_count;

void recorder_lock(void)
{
    pthread_mutex_lock(&state_lock);
}

void recorder_unlock(void)
{
    pthread_mutex_unlock(&state_lock);
}

bool recorder_is_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

uint64_t recorder_generation(void)
{
    return atomic_load_explicit(&recorder_generation_count, memory_order_relaxed);
}

void recorder_turn(bool is_on)
{
    /* A thread that sees it on sees the new generation. */
    if (is_on) {
        atomic_fetch_add(&recorder_generation_count, 1);
        atomic_store(&on, true);
    } else {
        atomic_store(&on, false);
        atomic_fetch_add(&recorder_generation_count, 1);
    }
}

void recorder_lock_after_fork(void)
{
    pthread_mutex_init(&state_lock, NULL);
    recorder_turn(false);
}
