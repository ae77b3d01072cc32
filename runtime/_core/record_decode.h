/* One record after the other, from the bytes of a block into tables and columns. A part of record_reader.c. */
#ifndef SCALANA_RECORD_DECODE_H
#define SCALANA_RECORD_DECODE_H

#include "record_reader.h"

/* What is left of a block, and what its records count from. */
typedef struct {
    const uint8_t *at, *end;
    bool bad;
    uint64_t base_ns;
    int64_t sample_us;
} cursor;

/* Makes the columns of an empty content, and the root of its paths. False when memory is short. */
bool content_begin(record_content *r);
/* One record. False when memory is short; an unreadable one sets c->bad. */
bool decode_record(record_content *r, cursor *c);
/* A row of zeros at the end; NULL when memory is short. */
void *row_array_add(row_array *a, size_t row_size);
/* Appends one value to each column of a table, or to none. */
bool push_all(column *columns, int count, const int64_t *values);

/* record_decode_spans.c. The first entries of the tables; records of kind 10; records that say how long they are. */
bool spans_begin(record_content *r);
bool decode_unwritten(record_content *r, cursor *c);
bool decode_sized(record_content *r, cursor *c, uint8_t kind);

/* ---- values ---- */

uint64_t take_long(cursor *c);
text take_text(cursor *c);

static inline uint64_t take(cursor *c)
{
    return c->at < c->end && *c->at < 0x80 ? *c->at++ : take_long(c); /* most are small */
}

static inline int64_t zigzag(uint64_t value)
{
    return (int64_t)((value >> 1) ^ (UINT64_C(0) - (value & 1)));
}

static inline int64_t take_signed(cursor *c)
{
    return zigzag(take(c));
}

static inline uint64_t take_time(cursor *c)
{
    return c->base_ns + (uint64_t)take_signed(c);
}

static inline void saw(record_content *r, uint64_t time_ns)
{
    if (time_ns > r->last_ns) {
        r->last_ns = time_ns;
    }
    if (r->first_ns == 0 || time_ns < r->first_ns) {
        r->first_ns = time_ns;
    }
}

#endif
