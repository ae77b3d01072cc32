/* Encodes records of spans, and of what they refer to. */
#pragma once

#include "base/intern.h"
#include "record/block.h"
#include "record/kinds.h"

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

void record_string(record_writer *w, uint32_t id, const char *text, size_t size);
/* `thread` is an index, or -1. */
void record_lane(record_writer *w, uint32_t id, enum lane_kind kind, int64_t thread, const char *name, size_t size);
void record_span(record_writer *w, const span_record *s);
void record_span_total(record_writer *w, const span_amount *sum);
