/* What a thread's calls of MPI add up to: counted without a lock, and collected at every flush of the record. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recorder/api.h"

#define TOTAL_ROWS 512u /* power of two */
#define TOTAL_PROBES 4u

typedef struct {
    _Alignas(64) total_amount sum; /* on one line of the cache */
} total_line;

/* Rows are the thread's; which calls a row stands for changes under the lock that `thread_totals_collect` holds too. */
typedef struct {
    total_line rows[TOTAL_ROWS];
    total_amount collected[TOTAL_ROWS]; /* of each row so far */
} thread_totals;

/* NULL when memory is short. */
thread_totals *thread_totals_new(void);

/* The thread's row for such calls, made if there is none; another's sums then go to the recorder. */
total_amount *thread_totals_row(thread_totals *totals, const recorder_api *recorder, uint32_t path, uint32_t operation,
                                uint32_t group);
/* Hands on what was not collected yet. The caller holds the lock of the recorder, and no thread ends meanwhile. */
void thread_totals_collect(thread_totals *totals, const recorder_api *recorder);
/* Likewise for a thread that ends, without the lock. */
void thread_totals_end(thread_totals *totals, const recorder_api *recorder);
/* Forgets all: they were of an earlier recording. */
void thread_totals_clear(thread_totals *totals);
void thread_totals_after_fork(void);

static inline unsigned thread_totals_place(uint32_t path, uint32_t operation, uint32_t group)
{
    uint64_t hash = (((uint64_t)group << 32 | path) ^ (uint64_t)operation << 24) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned)(hash >> 40) & (TOTAL_ROWS - 1);
}

/* Adds to a number that another thread reads. */
static inline void thread_totals_grow(uint64_t *sum, uint64_t amount)
{
    __atomic_store_n(sum, *sum + amount, __ATOMIC_RELAXED);
}

/* Adds calls to their row. */
static inline void thread_totals_add(total_amount *row, const total_amount *more)
{
    thread_totals_grow(&row->calls, more->calls);
    thread_totals_grow(&row->nbytes, more->nbytes);
    thread_totals_grow(&row->wall_ns, more->wall_ns);
    thread_totals_grow(&row->cpu_ns, more->cpu_ns);
}
