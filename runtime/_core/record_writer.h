/* Encodes records into checksummed blocks and appends them to a file. Knows nothing of Python.
 *
 * A writer has no lock of its own: its owner serialises the record_* calls. Sealing a block and writing it out are two
 * steps, so that the owner can let go of its lock while the disk is slow. */
#ifndef SCALANA_RECORD_WRITER_H
#define SCALANA_RECORD_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intern.h"
#include "record_kinds.h"

typedef struct {
    uint8_t *data; /* block header, then payload */
    size_t size;
    size_t capacity;
} block_buffer;

typedef struct {
    int fd;
    block_buffer active;
    uint64_t base_ns;     /* TIME of the current block, 0 when it has none yet */
    int64_t sample_us;    /* time of the previous SAMPLE, relative to base_ns */
    uint32_t next_block;  /* number of the next block to be sealed */
    uint64_t sealed;      /* bytes of the file header and of all sealed blocks */
    uint64_t lost;        /* records dropped because the buffer was full */
    bool stopped;         /* after an error: records are ignored */
} record_writer;

typedef struct {
    uint64_t id;
    uint32_t thread, operation, group, path;
    uint64_t seq;
    int64_t peer, tag;
    uint64_t nbytes, completes, enter_ns, duration_ns, cpu_enter_ns, cpu_ns;
    uint32_t flags;
} event_record;

typedef struct {
    uint32_t key;  /* id of a string */
    uint32_t text; /* likewise, of ATTRIBUTE_TEXT */
    int64_t number;
    double real;
    enum attribute_tag tag;
} span_attribute;

typedef struct {
    uint32_t type, lane, name, path;
    uint64_t start_ns, duration_ns, event;
    int64_t cpu_ns; /* -1 unknown */
    int64_t step;   /* -1 outside of any */
    const span_attribute *attributes;
    uint32_t attribute_count;
} span_record;

/* Creates `path` (which must not exist) and writes the file header. Returns 0, or an errno value. */
int writer_open(record_writer *w, const char *path);
/* Moves the active block into `block`, ready for writer_write; `block`'s old memory becomes the active buffer.
 * False when there is nothing to write. */
bool writer_seal(record_writer *w, block_buffer *block);
/* Appends one sealed block with all signals blocked. Returns 0, or an errno value after cutting a partial block off. */
int writer_write(int fd, const block_buffer *block, uint64_t offset);
/* Frees memory and closes the file. */
void writer_close(record_writer *w);

/* Bytes in the file once the active block is written. */
static inline uint64_t writer_bytes(const record_writer *w)
{
    return w->sealed + w->active.size;
}

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
void record_string(record_writer *w, uint32_t id, const char *text, size_t size);
/* `thread` is an index, or -1. */
void record_lane(record_writer *w, uint32_t id, enum lane_kind kind, int64_t thread, const char *name, size_t size);
void record_span(record_writer *w, const span_record *s);
void record_span_total(record_writer *w, const span_amount *sum);
void record_end(record_writer *w, uint64_t time_ns, int64_t status);

#endif
