/* Checksummed blocks of records, and the file that they are appended to. Knows nothing of Python.
 *
 * A writer has no lock of its own: its owner serialises the calls. Sealing a block and writing it out are two steps, so
 * that the owner can let go of its lock while the disk is slow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Makes room for so many more bytes; without it the record is counted as lost. */
bool writer_grow(record_writer *w, size_t extra);

/* Whether there is room for so many more bytes. */
static inline bool writer_reserve(record_writer *w, size_t extra)
{
    return (!w->stopped && w->active.size + extra <= w->active.capacity) || writer_grow(w, extra);
}
