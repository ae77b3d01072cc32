/* Reads the encodings of DWARF from bytes, and notes when there are too few. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *at, *end;
    uintptr_t address; /* of `at` in the module, for what is relative to its own place */
    bool bad;
} cursor;

static inline uint64_t take(cursor *c, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < size) {
        c->bad = true;
        c->at = c->end;
        return 0;
    }
    memcpy(&value, c->at, size);
    c->at += size;
    c->address += size;
    return value;
}

static inline void skip(cursor *c, uint64_t size)
{
    if ((uint64_t)(c->end - c->at) < size) {
        c->bad = true;
        c->at = c->end;
    } else {
        c->at += size;
        c->address += size;
    }
}

static inline uint64_t take_leb(cursor *c, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = (uint8_t)take(c, 1);
        if (shift < 64) {
            value |= (uint64_t)(byte & 0x7f) << shift;
        }
        shift += 7;
    } while (byte & 0x80 && !c->bad);
    if (is_signed && byte & 0x40 && shift < 64) {
        value |= ~UINT64_C(0) << shift;
    }
    return value;
}
