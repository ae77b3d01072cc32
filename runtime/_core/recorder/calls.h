/* What happened when: communication calls, their completions, intervals and samples. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/intern.h"
#include "recorder/call_arguments.h"

uint64_t recorder_begin(const call_arguments *call, pid_t tid, uint32_t thread, uint32_t path, uint64_t enter_ns,
                        uint64_t cpu_ns);
void recorder_end(uint64_t event, int64_t source, pid_t tid);
/* The same with the clocks of the calling thread, where these have been read. */
void recorder_end_at(uint64_t event, int64_t source, pid_t tid, uint64_t now_ns, uint64_t own_cpu_ns);
/* A call of which it is known only now what it took: one EVENT for each id, of the same times, or none. Counts once. */
void recorder_end_as(uint64_t event, const uint64_t *ids, size_t count, pid_t tid, uint64_t now_ns, uint64_t cpu_ns);
/* A call that is known only once it is over, with its times; of the calling thread's past. */
uint64_t recorder_event_at(const call_arguments *call, uint32_t thread, uint32_t path, uint64_t enter_ns,
                           uint64_t exit_ns, uint64_t cpu_enter_ns, uint64_t cpu_ns);
/* The call has completed several posts: one EVENT each, of the same times. Counts as one call. */
void recorder_completions_at(const call_arguments *call, const uint64_t *completes, size_t count, uint32_t thread,
                             uint32_t path, uint64_t enter_ns, uint64_t exit_ns, uint64_t cpu_enter_ns,
                             uint64_t cpu_ns);
/* Calls that only count. */
void recorder_count(const total_amount *amount);
void recorder_count_locked(const total_amount *amount);
void recorder_done(uint64_t event, int64_t source);

void recorder_sample(uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us, uint64_t core_wait_us,
                     uint32_t state);
