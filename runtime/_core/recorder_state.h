/* What the modules of the recorder share: its state, of which all but the two locks lies in one structure. */
#ifndef SCALANA_RECORDER_STATE_H
#define SCALANA_RECORDER_STATE_H

#include <sys/stat.h>

#include "recorder.h"

#define OPEN_CALLS 1024u
#define POSTS 16384u /* power of two */
#define THREAD_BUCKETS 1024u /* power of two */
#define NO_THREAD UINT32_MAX

typedef struct {
    pid_t tid; /* 0 once the thread is gone */
    uint32_t flags;
    uint32_t next; /* in the bucket */
    uint32_t lane; /* 0 while it has none */
} thread_row;

typedef struct {
    uint64_t name_hash;
    uint32_t content; /* of ranks, low half of a hash */
    uint32_t my_rank, my_world_rank, members;
} group_row;

typedef struct {
    event_record event;
    pid_t tid;
    bool used;
} open_call;

typedef struct {
    uint64_t event;
    pid_t tid;
} posted;

/* How the spans of one step are thinned. */
typedef struct {
    int64_t number;
    uint32_t level; /* when it began */
    bool cut;       /* there was no room for all */
} step_level;

/* The step that the process is in. */
typedef struct {
    enum step_source source; /* 0 before the first mark */
    uint64_t start_ns, cpu_ns; /* of the thread that marked its beginning; 0 where it is not known when it began */
    pid_t tid;
    step_level now, before;
} step_state;

typedef struct {
    record_writer writer;
    char *path;
    dev_t device;
    ino_t inode;
    uint64_t budget;
    uint64_t serial;
    uint64_t totals_ns;
    bool any_source_stopped, definitions_stopped, open_full_noted;
    code_table codes;
    path_table paths;
    total_table totals;
    thread_row *threads;
    uint32_t thread_count, thread_capacity;
    uint32_t buckets[THREAD_BUCKETS];
    group_row *groups;
    uint32_t group_count, group_capacity;
    open_call *open;
    uint32_t open_top; /* slots in use are below it */
    posted *posts;
    code_table strings, lanes; /* by content alone */
    span_total_table span_totals;
    bool spans_thinned;
    step_state step;
} recording;

/* recorder.c. Under the lock that recorder_lock() takes. */
extern recording rec;

/* recorder_definitions.c */
void recorder_note_locked(const char *text);
/* False once definitions alone would outgrow the budget. */
bool recorder_may_define_locked(void);

/* recorder_thinning.c */
/* Number of times that the remaining budget has halved. */
uint32_t recorder_level_locked(void);
/* The same for spans, which leave a part of the budget to the steps that they are in. */
uint32_t recorder_span_level_locked(void);
/* Whether a call is among those that are kept at this level; on all ranks that take part, or on none. */
bool recorder_keeps_locked(const call_arguments *call, uint32_t level);

/* recorder_spans.c */
/* A recording begins. */
void recorder_spans_begin_locked(void);
/* Writes the totals that have changed, if any span was left out. */
void recorder_write_span_totals_locked(void);
void recorder_spans_forget(void);

#endif
