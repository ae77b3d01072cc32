/* The recorder of one process: what is recorded, under one lock. Knows nothing of Python.
 *
 * Everything here is safe to call from any thread at any time; when no recording is on, it does nothing. */
#ifndef SCALANA_RECORDER_H
#define SCALANA_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "intern.h"
#include "record_writer.h"

/* One frame of a call path: a code id and the byte offset of the instruction (or the line, for codes without table). */
typedef struct {
    uint32_t code;
    uint32_t lasti;
} path_step;

typedef struct {
    const char *file, *name;
    size_t file_size, name_size;
    uint32_t first_line, minor;
    const uint8_t *table;
    size_t table_size;
} code_content_view;

typedef struct {
    int64_t peer, tag;
    uint64_t seq, nbytes, completes;
    uint32_t operation, group, flags;
    uint64_t unwritten_ns, unwritten_cpu_ns; /* in calls that were not written, since the thread's last that was */
} call_arguments;

/* Starts recording to a new file. Returns 0, or an errno value (EALREADY when a recording is on). */
int recorder_start(const char *path, uint64_t budget_bytes);
/* Writes END and everything pending, and closes the file. No-op when off. */
void recorder_stop(int64_t status);
/* Seals and writes what is pending: OPEN records first, totals when due. */
void recorder_flush(void);
bool recorder_is_on(void);
/* Counts starts and forks: what was cached under another generation is void. */
uint64_t recorder_generation(void);
/* Where that is counted. */
extern _Atomic uint64_t recorder_generation_count;
/* Whether so much is pending that a flush should not wait for its time. */
bool recorder_is_full(void);

void recorder_meta(const char *key, size_t key_size, const char *value, size_t value_size);
void recorder_note(const char *text, size_t size);
/* Id of the communicator; 0 when recording is off. The same name and ranks give the same id. */
uint32_t recorder_group(const char *name, size_t size, uint32_t my_rank, uint32_t members, const uint32_t *ranks);

/* Index of a thread by its kernel id; recorded on first sight, and again when it gains flags. */
uint32_t recorder_thread(pid_t tid, uint32_t flags);
/* Forgets that this kernel id stands for a thread that has ended. */
void recorder_thread_gone(pid_t tid);

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
/* Called at each flush, under the lock: counts what was counted elsewhere since, and writes OPEN records of calls that
 * were not begun here. */
void recorder_on_flush(void (*hook)(record_writer *writer));
void recorder_done(uint64_t event, int64_t source);

/* ---- spans; the *_locked functions need the lock, and forget what they gave out when the generation changes ---- */

/* Where steps come from, the most telling first: the marks of a less telling source are ignored once a better one has
 * spoken. */
enum step_source { STEP_USER = 1, STEP_TRAINER = 2, STEP_OPTIMIZER = 3, STEP_SCHEDULE = 4, STEP_SOURCES };

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

void recorder_sample(uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us, uint64_t core_wait_us,
                     uint32_t state);
/* Samples are taken on every 2^level-th tick. */
uint32_t recorder_level(void);

/* The lock, for callers that intern several things in one go. The *_locked functions need it. */
void recorder_lock(void);
void recorder_unlock(void);
code_address *recorder_code_at_locked(uint64_t address);
uint32_t recorder_code_locked(const code_content_view *code);
uint32_t recorder_path_locked(uint32_t parent, uint32_t code, uint32_t lasti);

/* Called in the child after fork, with the recorder already off. One hook: the sampler's. */
void recorder_on_fork(void (*hook)(void));

#endif
