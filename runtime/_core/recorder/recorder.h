/* The recorder of one process: the life of a recording. What is recorded stands under one lock. Knows nothing of Python.
 *
 * Everything here is safe to call from any thread at any time; when no recording is on, it does nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/block.h"

/* Starts recording to a new file. Returns 0, or an errno value (EALREADY when a recording is on). */
int recorder_start(const char *path, uint64_t budget_bytes);
/* Writes END and everything pending, and closes the file. No-op when off. */
void recorder_stop(int64_t status);
/* Seals and writes what is pending: OPEN records first, totals when due. */
void recorder_flush(void);
/* Whether so much is pending that a flush should not wait for its time. */
bool recorder_is_full(void);

/* Called at each flush, under the lock: counts what was counted elsewhere since, and writes OPEN records of calls that
 * were not begun here. */
void recorder_on_flush(void (*hook)(record_writer *writer));
/* Called in the child after fork, with the recorder already off. One hook: the sampler's. */
void recorder_on_fork(void (*hook)(void));
