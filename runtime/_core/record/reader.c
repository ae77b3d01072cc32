#include "record/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "record/decode.h"
#include "record/kinds.h"

static bool trouble(record_content *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool trouble(record_content *r, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    char **row = row_array_add(&r->troubles, sizeof *row);
    if (row == NULL) {
        return false;
    }
    *row = strdup(line);
    return *row != NULL;
}

/* ---- blocks ---- */

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool is_block(const uint8_t *at, const uint8_t *end)
{
    if ((size_t)(end - at) < RECORD_BLOCK_HEADER || load_u32(at) != RECORD_BLOCK_MAGIC) {
        return false;
    }
    uint32_t size = load_u32(at + 4);
    return size <= RECORD_BLOCK_MAX && size <= (size_t)(end - at) - RECORD_BLOCK_HEADER;
}

/* The next place that looks like a whole block, or the end: how to go on after a damaged header. */
static const uint8_t *next_block(const uint8_t *at, const uint8_t *end)
{
    for (; (size_t)(end - at) >= RECORD_BLOCK_HEADER; at++) {
        if (is_block(at, end) &&
            checksum_crc32(at + RECORD_BLOCK_HEADER, load_u32(at + 4)) == load_u32(at + 8)) {
            return at;
        }
    }
    return end;
}

static bool read_blocks(record_content *r)
{
    const uint8_t *start = r->bytes, *end = start + r->size, *at = start + RECORD_FILE_HEADER;
    while (at < end) {
        if (!is_block(at, end)) {
            const uint8_t *next = next_block(at + 1, end);
            bool told = next == end
                            ? trouble(r, "torn last block dropped: %zu bytes at offset %zu", (size_t)(end - at),
                                      (size_t)(at - start))
                            : trouble(r, "damaged stretch skipped: %zu bytes at offset %zu", (size_t)(next - at),
                                      (size_t)(at - start));
            if (!told) {
                return false;
            }
            at = next;
            continue;
        }
        uint32_t size = load_u32(at + 4);
        cursor c = {.at = at + RECORD_BLOCK_HEADER, .end = at + RECORD_BLOCK_HEADER + size};
        if (checksum_crc32(c.at, size) != load_u32(at + 8)) {
            /* If its length is wrong too, the next whole block may begin inside of it. */
            const uint8_t *next = c.end == end || is_block(c.end, end) ? c.end : next_block(at + 1, end);
            if (!trouble(r, "block %u skipped: its checksum is wrong (%u bytes at offset %zu)", load_u32(at + 12),
                         size, (size_t)(at - start))) {
                return false;
            }
            at = next;
            continue;
        }
        r->blocks++;
        while (c.at < c.end) {
            const uint8_t *record = c.at;
            if (!decode_record(r, &c)) {
                return false;
            }
            if (c.bad) {
                if (!trouble(r, "rest of block %u dropped: unreadable record of kind %u at offset %zu",
                             load_u32(at + 12), (unsigned)*record, (size_t)(record - start))) {
                    return false;
                }
                break;
            }
        }
        at += RECORD_BLOCK_HEADER + size;
    }
    return true;
}

static bool tell_skipped(record_content *r)
{
    for (unsigned kind = 0; kind < 256; kind++) {
        if (r->skipped[kind] && !trouble(r, "%llu records of kind %u, written by a newer scalana, were skipped",
                                         (unsigned long long)r->skipped[kind], kind)) {
            return false;
        }
    }
    return true;
}

/* ---- file ---- */

static enum read_result slurp(const char *path, record_content *r)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return READ_SYSTEM_ERROR;
    }
    struct stat info;
    size_t capacity = fstat(fd, &info) == 0 && info.st_size > 0 ? (size_t)info.st_size + 1 : 65536;
    r->bytes = malloc(capacity);
    while (r->bytes) {
        if (r->size == capacity) { /* it still grows */
            uint8_t *larger = realloc(r->bytes, capacity * 2);
            if (larger == NULL) {
                break;
            }
            r->bytes = larger;
            capacity *= 2;
        }
        ssize_t n = read(fd, r->bytes + r->size, capacity - r->size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            int error = errno;
            close(fd);
            errno = error;
            return READ_SYSTEM_ERROR;
        }
        if (n == 0) {
            close(fd);
            return READ_OK;
        }
        r->size += (size_t)n;
    }
    close(fd);
    return READ_NO_MEMORY;
}

enum read_result record_read(const char *path, record_content *r)
{
    memset(r, 0, sizeof *r);
    r->status = -1;
    if (!content_begin(r)) {
        return READ_NO_MEMORY;
    }
    enum read_result result = slurp(path, r);
    if (result != READ_OK) {
        return result;
    }
    if (r->size < RECORD_FILE_HEADER || memcmp(r->bytes, RECORD_FILE_MAGIC, 8) != 0) {
        return READ_NOT_A_RECORD;
    }
    uint32_t version = load_u32(r->bytes + 8), reader = load_u32(r->bytes + 12);
    if (version == 0 || (reader ? reader : version) > RECORD_FILE_VERSION) {
        return READ_OTHER_VERSION;
    }
    return read_blocks(r) && tell_skipped(r) ? READ_OK : READ_NO_MEMORY;
}
