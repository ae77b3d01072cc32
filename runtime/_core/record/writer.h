/* Encodes records into the block of a writer. Knows nothing of Python. */
#pragma once

#include "base/intern.h"
#include "record/block.h"

typedef struct {
    uint64_t id;
    uint32_t thread, operation, group, path;
    uint64_t seq;
    int64_t peer, tag;
    uint64_t nbytes, completes, enter_ns, duration_ns, cpu_enter_ns, cpu_ns;
    uint32_t flags;
} event_record;

void record_meta(record_writer *w, const char *key, size_t key_size, const char *value, size_t value_size);
void record_note(record_writer *w, const char *text, size_t size);
void record_code(record_writer *w, uint32_t id, const char *file, size_t file_size, const char *name,
                 size_t name_size, uint32_t first_line, uint32_t minor, const uint8_t *table, size_t table_size);
void record_path(record_writer *w, uint32_t id, uint32_t parent, uint32_t code, uint32_t lasti);
void record_thread(record_writer *w, uint32_t index, uint64_t tid, const char *name, size_t size, uint32_t flags);
void record_time(record_writer *w, uint64_t now_ns);
void record_sample(record_writer *w, uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us,
                   uint64_t core_wait_us, uint32_t state);
void record_group(record_writer *w, uint32_t id, const char *name, size_t size, uint32_t my_rank, uint32_t members,
                  const uint32_t *ranks);
void record_event(record_writer *w, const event_record *e);
void record_done(record_writer *w, uint64_t event, uint64_t time_ns, uint64_t cpu_ns, int64_t source);
/* How long a thread was in calls that were not written, before one that is. */
void record_unwritten(record_writer *w, uint32_t thread, uint64_t start_ns, uint64_t duration_ns, uint64_t cpu_ns);
void record_total(record_writer *w, const total_amount *sum);
void record_open(record_writer *w, const event_record *e);
void record_end(record_writer *w, uint64_t time_ns, int64_t status);
