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

#endif
