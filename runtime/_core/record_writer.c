#include "record_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "record_encode.h"

#define INITIAL_CAPACITY (64u << 10)
/* What may pile up while the disk is stuck; beyond it records are dropped and counted. */
#define LARGEST_BUFFER (8u << 20)
#define FIRST_DESCRIPTOR 512

/* ---- encoding ---- */

bool writer_reserve(record_writer *w, size_t extra)
{
    block_buffer *b = &w->active;
    if (w->stopped) {
        return false;
    }
    size_t need = b->size + extra;
    if (need <= b->capacity) {
        return true;
    }
    if (need > LARGEST_BUFFER) {
        w->lost++;
        return false;
    }
    size_t capacity = b->capacity ? b->capacity : INITIAL_CAPACITY;
    while (capacity < need) {
        capacity *= 2;
    }
    uint8_t *data = realloc(b->data, capacity);
    if (data == NULL) {
        w->lost++;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

static size_t bounded(size_t size)
{
    return size < LONGEST_STRING ? size : LONGEST_STRING;
}

void record_meta(record_writer *w, const char *key, size_t key_size, const char *value, size_t value_size)
{
    key_size = bounded_text(key, key_size);
    value_size = bounded_text(value, value_size);
    if (begin_record(w, RECORD_META, 2, key_size + value_size)) {
        put_bytes(w, key, key_size);
        put_bytes(w, value, value_size);
    }
}

void record_note(record_writer *w, const char *text, size_t size)
{
    size = bounded_text(text, size);
    if (begin_record(w, RECORD_NOTE, 1, size)) {
        put_bytes(w, text, size);
    }
}

void record_code(record_writer *w, uint32_t id, const char *file, size_t file_size, const char *name,
                 size_t name_size, uint32_t first_line, uint32_t minor, const uint8_t *table, size_t table_size)
{
    file_size = bounded_text(file, file_size);
    name_size = bounded_text(name, name_size);
    table_size = bounded(table_size);
    if (begin_record(w, RECORD_CODE, 6, file_size + name_size + table_size)) {
        put(w, id);
        put_bytes(w, file, file_size);
        put_bytes(w, name, name_size);
        put(w, first_line);
        put(w, minor);
        put_bytes(w, table, table_size);
    }
}

void record_path(record_writer *w, uint32_t id, uint32_t parent, uint32_t code, uint32_t lasti)
{
    if (begin_record(w, RECORD_PATH, 4, 0)) {
        put(w, id);
        put(w, parent);
        put(w, code);
        put(w, lasti);
    }
}

void record_thread(record_writer *w, uint32_t index, uint64_t tid, const char *name, size_t size, uint32_t flags)
{
    if (begin_record(w, RECORD_THREAD, 4, size)) {
        put(w, index);
        put(w, tid);
        put_bytes(w, name, size);
        put(w, flags);
    }
}

void record_time(record_writer *w, uint64_t now_ns)
{
    if (begin_record(w, RECORD_TIME, 1, 0)) {
        put(w, now_ns);
        w->base_ns = now_ns;
        w->sample_us = 0;
    }
}

void record_sample(record_writer *w, uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us,
                   uint64_t core_wait_us, uint32_t state)
{
    need_base(w, time_ns);
    if (begin_record(w, RECORD_SAMPLE, 6, 0)) {
        int64_t us = from_base(w, time_ns) / 1000;
        put(w, thread);
        put_signed(w, us - w->sample_us);
        put(w, path);
        put(w, cpu_us);
        put(w, core_wait_us);
        put(w, state);
        w->sample_us = us;
    }
}

/* How many of the ranks from `at` on follow each other in equal steps. */
static uint32_t stride_length(const uint32_t *ranks, uint32_t at, uint32_t members)
{
    uint32_t end = at + 1;
    while (end < members && (int64_t)ranks[end] - ranks[end - 1] == (int64_t)ranks[at + 1] - ranks[at]) {
        end++;
    }
    return end - at;
}

static uint32_t count_strides(const uint32_t *ranks, uint32_t members)
{
    uint32_t strides = 0;
    for (uint32_t at = 0; at < members; at += stride_length(ranks, at, members)) {
        strides++;
    }
    return strides;
}

static void put_strided_group(record_writer *w, uint32_t id, const char *name, size_t size, uint32_t my_rank,
                              uint32_t members, const uint32_t *ranks, uint32_t strides)
{
    if (begin_record(w, RECORD_STRIDED_GROUP, 4 + 3 * (size_t)strides, size)) {
        put(w, id);
        put_bytes(w, name, size);
        put(w, my_rank);
        put(w, strides);
        for (uint32_t at = 0; at < members;) {
            uint32_t length = stride_length(ranks, at, members);
            put(w, ranks[at]);
            put_signed(w, length > 1 ? (int64_t)ranks[at + 1] - ranks[at] : 0);
            put(w, length);
            at += length;
        }
    }
}

/* Whichever way of naming the members is shorter: most groups are every nth of a range of ranks. */
void record_group(record_writer *w, uint32_t id, const char *name, size_t size, uint32_t my_rank, uint32_t members,
                  const uint32_t *ranks)
{
    size = bounded_text(name, size);
    uint32_t strides = count_strides(ranks, members);
    if (3 * (uint64_t)strides < members) {
        put_strided_group(w, id, name, size, my_rank, members, ranks, strides);
        return;
    }
    if (begin_record(w, RECORD_GROUP, 4 + (size_t)members, size)) {
        put(w, id);
        put_bytes(w, name, size);
        put(w, my_rank);
        put(w, members);
        for (uint32_t i = 0; i < members; i++) {
            put(w, ranks[i]);
        }
    }
}

void record_event(record_writer *w, const event_record *e)
{
    need_base(w, e->enter_ns);
    if (begin_record(w, RECORD_EVENT, 15, 0)) {
        put(w, e->id);
        put(w, e->thread);
        put(w, e->operation);
        put(w, e->group);
        put(w, e->seq);
        put_signed(w, e->peer);
        put_signed(w, e->tag);
        put(w, e->nbytes);
        put(w, e->flags);
        put_signed(w, from_base(w, e->enter_ns));
        put(w, e->duration_ns);
        put(w, e->cpu_enter_ns);
        put(w, e->cpu_ns);
        put(w, e->path);
        put(w, e->completes);
    }
}

void record_done(record_writer *w, uint64_t event, uint64_t time_ns, uint64_t cpu_ns, int64_t source)
{
    need_base(w, time_ns);
    if (begin_record(w, RECORD_DONE, 4, 0)) {
        put(w, event);
        put_signed(w, from_base(w, time_ns));
        put(w, cpu_ns);
        put_signed(w, source);
    }
}

void record_unwritten(record_writer *w, uint32_t thread, uint64_t start_ns, uint64_t duration_ns, uint64_t cpu_ns)
{
    need_base(w, start_ns);
    if (begin_record(w, RECORD_UNWRITTEN, 7, 0)) {
        put(w, UNWRITTEN_CALLS);
        put(w, thread);
        put_bytes(w, "", 0);
        put_signed(w, from_base(w, start_ns));
        put(w, duration_ns);
        put(w, cpu_ns);
        put(w, 0);
    }
}

void record_total(record_writer *w, const total_amount *sum)
{
    if (begin_record(w, RECORD_TOTAL, 7, 0)) {
        put(w, sum->path);
        put(w, sum->operation);
        put(w, sum->group);
        put(w, sum->calls);
        put(w, sum->nbytes);
        put(w, sum->wall_ns);
        put(w, sum->cpu_ns);
    }
}

void record_open(record_writer *w, const event_record *e)
{
    need_base(w, e->enter_ns);
    if (begin_record(w, RECORD_OPEN, 8, 0)) {
        put(w, e->thread);
        put(w, e->id);
        put(w, e->operation);
        put(w, e->group);
        put(w, e->seq);
        put_signed(w, e->peer);
        put(w, e->path);
        put_signed(w, from_base(w, e->enter_ns));
    }
}

void record_end(record_writer *w, uint64_t time_ns, int64_t status)
{
    need_base(w, time_ns);
    if (begin_record(w, RECORD_END, 2, 0)) {
        put_signed(w, from_base(w, time_ns));
        put_signed(w, status);
    }
}

/* ---- file ---- */

static void store_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(value >> (8 * i));
    }
}

/* write() that no signal interrupts or kills: SIGPIPE and SIGXFSZ of a hopeless write are swallowed. */
static int write_all(int fd, const uint8_t *data, size_t size)
{
    sigset_t all, before, pending, ours;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sigemptyset(&pending);
    sigpending(&pending);
    int error = 0;
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            error = n < 0 ? errno : EIO;
            break;
        }
        data += n;
        size -= (size_t)n;
    }
    if (error == EPIPE || error == EFBIG) {
        int which = error == EPIPE ? SIGPIPE : SIGXFSZ;
        if (!sigismember(&pending, which)) {
            struct timespec none = {0, 0};
            sigemptyset(&ours);
            sigaddset(&ours, which);
            sigtimedwait(&ours, NULL, &none);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int writer_open(record_writer *w, const char *path)
{
    memset(w, 0, sizeof *w);
    w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        return errno;
    }
    /* A high number, out of the way of a program that counts on the lowest free one. */
    int high = fcntl(w->fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (high >= 0) {
        close(w->fd);
        w->fd = high;
    }
    uint8_t header[RECORD_FILE_HEADER] = {0};
    memcpy(header, RECORD_FILE_MAGIC, 8);
    store_u32(header + 8, RECORD_FILE_VERSION);
    store_u32(header + 12, RECORD_READER_VERSION);
    int error = write_all(w->fd, header, sizeof header);
    if (error) {
        close(w->fd);
        w->fd = -1;
        unlink(path);
        return error;
    }
    w->sealed = RECORD_FILE_HEADER;
    return 0;
}

bool writer_seal(record_writer *w, block_buffer *block)
{
    if (w->stopped || w->active.size <= RECORD_BLOCK_HEADER) {
        return false;
    }
    block_buffer fresh = *block;
    fresh.size = 0;
    *block = w->active;
    w->active = fresh;
    store_u32(block->data, RECORD_BLOCK_MAGIC);
    store_u32(block->data + 4, (uint32_t)(block->size - RECORD_BLOCK_HEADER));
    store_u32(block->data + 12, w->next_block++);
    w->sealed += block->size;
    w->base_ns = 0;
    return true;
}

int writer_write(int fd, const block_buffer *block, uint64_t offset)
{
    const uint8_t *payload = block->data + RECORD_BLOCK_HEADER;
    store_u32(block->data + 8, checksum_crc32(payload, block->size - RECORD_BLOCK_HEADER));
    int error = write_all(fd, block->data, block->size);
    if (error && ftruncate(fd, (off_t)offset) != 0) {
        return error; /* the reader drops the torn block instead */
    }
    return error;
}

void writer_close(record_writer *w)
{
    if (w->fd >= 0) {
        close(w->fd);
    }
    free(w->active.data);
    memset(w, 0, sizeof *w);
    w->fd = -1;
    w->stopped = true;
}
