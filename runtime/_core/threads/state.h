/* What the kernel knows of a thread of this process: what it waits for, and how long it has waited for a core. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/kinds.h"

/* Files of /proc of one thread, opened when first needed and kept open for the first few threads. */
typedef struct {
    pid_t tid;
    int syscall_slot, schedstat_slot; /* in the table of kept files, -1 none */
} thread_files;

void thread_files_init(thread_files *files, pid_t tid);
void thread_files_close(thread_files *files);

/* What the thread does now: one of STATE_*. STATE_UNKNOWN where the kernel does not say. */
enum thread_activity thread_activity_now(thread_files *files);
/* Total time that the thread was runnable without a core, in ns; 0 where the kernel does not say. */
uint64_t thread_core_wait_ns(thread_files *files);
/* How many threads the process has; 0 if the kernel does not tell. */
uint64_t threads_listed(void);

/* Closes the files inherited from the parent. */
void thread_state_after_fork(void);
