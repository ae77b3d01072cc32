/* What the modules of the recorder share: its state, of which all but the two locks lies in one structure. */
#pragma once

#include <sys/stat.h>

#include "base/intern.h"
#include "record/block.h"
#include "record/writer.h"
#include "recorder/steps.h"

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

/* Under the lock of recorder_lock(). */
extern recording rec;

void recorder_note_locked(const char *text);
