#include "callers/totals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

thread_totals *thread_totals_new(void)
{
    thread_totals *totals = aligned_alloc(_Alignof(thread_totals), sizeof *totals);
    if (totals) {
        memset(totals, 0, sizeof *totals);
    }
    return totals;
}

/* What a row has more than was collected of it; it counts as collected from now on. */
static bool take_new(thread_totals *totals, unsigned at, total_amount *amount)
{
    const total_amount *row = &totals->rows[at].sum;
    total_amount *before = &totals->collected[at];
    *amount = *row;
    amount->calls = __atomic_load_n(&row->calls, __ATOMIC_RELAXED);
    amount->nbytes = __atomic_load_n(&row->nbytes, __ATOMIC_RELAXED);
    amount->wall_ns = __atomic_load_n(&row->wall_ns, __ATOMIC_RELAXED);
    amount->cpu_ns = __atomic_load_n(&row->cpu_ns, __ATOMIC_RELAXED);
    total_amount now = *amount;
    amount->calls -= before->calls;
    amount->nbytes -= before->nbytes;
    amount->wall_ns -= before->wall_ns;
    amount->cpu_ns -= before->cpu_ns;
    *before = now;
    return amount->calls || amount->wall_ns;
}

static bool is_of(const total_amount *row, uint32_t path, uint32_t operation, uint32_t group)
{
    return row->path == path && row->operation == operation && row->group == group;
}

total_amount *thread_totals_row(thread_totals *totals, const recorder_api *recorder, uint32_t path, uint32_t operation,
                                uint32_t group)
{
    unsigned first = thread_totals_place(path, operation, group), at = first;
    for (unsigned i = 0; i < TOTAL_PROBES; i++) {
        unsigned place = (first + i) & (TOTAL_ROWS - 1);
        total_amount *row = &totals->rows[place].sum;
        if (is_of(row, path, operation, group)) {
            return row;
        }
        if (row->calls == 0 && totals->rows[at].sum.calls) {
            at = place;
        }
    }
    total_amount old;
    pthread_mutex_lock(&lock);
    bool any = take_new(totals, at, &old);
    totals->rows[at].sum = (total_amount){.path = path, .operation = operation, .group = group};
    totals->collected[at] = totals->rows[at].sum;
    pthread_mutex_unlock(&lock);
    if (any) {
        recorder->count(&old);
    }
    return &totals->rows[at].sum;
}

void thread_totals_collect(thread_totals *totals, const recorder_api *recorder)
{
    pthread_mutex_lock(&lock);
    for (unsigned at = 0; at < TOTAL_ROWS; at++) {
        total_amount amount;
        if (take_new(totals, at, &amount)) {
            recorder->count_locked(&amount);
        }
    }
    pthread_mutex_unlock(&lock);
}

void thread_totals_end(thread_totals *totals, const recorder_api *recorder)
{
    for (unsigned at = 0; at < TOTAL_ROWS; at++) {
        total_amount amount;
        if (take_new(totals, at, &amount)) {
            recorder->count(&amount);
        }
    }
}

void thread_totals_clear(thread_totals *totals)
{
    pthread_mutex_lock(&lock);
    memset(totals, 0, sizeof *totals);
    pthread_mutex_unlock(&lock);
}

void thread_totals_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}
