/* How values stand in a block: for the parts of the writer alone. */
#pragma once

#include <string.h>

#include "record/block.h"
#include "record/kinds.h"

#define VARINT_MAX 10u
#define LONGEST_STRING (1u << 20)

static inline void put_byte(record_writer *w, uint8_t byte)
{
    w->active.data[w->active.size++] = byte;
}

static inline void put(record_writer *w, uint64_t value)
{
    uint8_t *p = w->active.data + w->active.size;
    while (value >= 0x80) {
        *p++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *p++ = (uint8_t)value;
    w->active.size = (size_t)(p - w->active.data);
}

static inline void put_signed(record_writer *w, int64_t value)
{
    put(w, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

static inline void put_bytes(record_writer *w, const void *data, size_t size)
{
    put(w, size);
    if (size) {
        memcpy(w->active.data + w->active.size, data, size);
        w->active.size += size;
    }
}

/* A string cut at the bound must not end inside a UTF-8 sequence. */
static inline size_t bounded_text(const char *text, size_t size)
{
    if (size <= LONGEST_STRING) {
        return size;
    }
    size = LONGEST_STRING;
    while (size > 0 && ((uint8_t)text[size] & 0xC0) == 0x80) {
        size--;
    }
    return size;
}

static inline bool begin_record(record_writer *w, enum record_kind kind, size_t fields, size_t text)
{
    if (w->active.size == 0) {
        if (!writer_reserve(w, RECORD_BLOCK_HEADER)) {
            return false;
        }
        w->active.size = RECORD_BLOCK_HEADER;
    }
    if (!writer_reserve(w, 1 + fields * VARINT_MAX + text)) {
        return false;
    }
    put_byte(w, (uint8_t)kind);
    return true;
}

static inline int64_t from_base(const record_writer *w, uint64_t time_ns)
{
    return (int64_t)(time_ns - w->base_ns);
}

/* What times in the block count from, from here on. */
static inline void put_time(record_writer *w, uint64_t now_ns)
{
    if (begin_record(w, RECORD_TIME, 1, 0)) {
        put(w, now_ns);
        w->base_ns = now_ns;
        w->sample_us = 0;
    }
}

static inline void need_base(record_writer *w, uint64_t time_ns)
{
    if (w->base_ns == 0) {
        put_time(w, time_ns);
    }
}
