/* The values of records, one after the other, from the bytes of a block. */
#pragma once

#include "record/content.h"

/* What is left of a block, and what its records count from. */
typedef struct {
    const uint8_t *at, *end;
    bool bad;
    uint64_t base_ns;
    int64_t sample_us;
} cursor;

static inline uint64_t take_long(cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;
    while (c->at < c->end) {
        uint8_t byte = *c->at++;
        if (shift < 64) {
            value |= (uint64_t)(byte & 0x7f) << shift;
        }
        if (!(byte & 0x80)) {
            return value;
        }
        shift += 7;
        if (shift > 63) {
            break;
        }
    }
    c->bad = true;
    return 0;
}

static inline uint64_t take(cursor *c)
{
    return c->at < c->end && *c->at < 0x80 ? *c->at++ : take_long(c); /* most are small */
}

static inline text take_text(cursor *c)
{
    uint64_t size = take(c);
    text t = {c->at, 0};
    if (c->bad || size > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        return t;
    }
    t.size = (size_t)size;
    c->at += size;
    return t;
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
