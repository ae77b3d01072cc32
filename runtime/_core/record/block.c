#include "record/block.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "record/kinds.h"

#define INITIAL_CAPACITY (64u << 10)
/* What may pile up while the disk is stuck; beyond it records are dropped and counted. */
#define LARGEST_BUFFER (8u << 20)
#define FIRST_DESCRIPTOR 512

bool writer_grow(record_writer *w, size_t extra)
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
