/* Spans: what has a begin, an end and a name; and the steps they are in.
 *
 * The *_locked functions need the recorder's lock, and forget what they gave out when the generation changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/kinds.h"
#include "record/spans.h"
#include "recorder/steps.h"

/* Id of a text: 0 where it is not recorded. */
uint32_t recorder_string_locked(const char *text, size_t size);
/* Id of a lane; `thread` is the thread whose time it is, -1 for none. */
uint32_t recorder_lane_locked(enum lane_kind kind, int64_t thread, const char *name, size_t size);
/* Lane of what a thread itself does. */
uint32_t recorder_thread_lane_locked(uint32_t thread);
/* Records a span, or counts it where the budget is short. */
void recorder_span_locked(const span_record *span);
/* Number of the step that the process is in, -1 outside of any. */
int64_t recorder_current_step(void);
/* The first step begins here. */
void recorder_begin_steps(pid_t tid, uint64_t now_ns, uint64_t cpu_ns);
/* A step ends here, and the next one begins. */
void recorder_mark_step(enum step_source source, pid_t tid, uint32_t thread, uint32_t path, uint64_t now_ns,
                        uint64_t cpu_ns);

/* ---- for recorder.c ---- */

/* A recording begins. */
void recorder_spans_begin_locked(void);
/* Writes the totals that have changed, if any span was left out. */
void recorder_write_span_totals_locked(void);
void recorder_spans_forget(void);
