/* Spans, what they refer to, and records that are skipped. */
#pragma once

#include "record/cursor.h"

/* The first entries of the tables. False when memory is short. */
bool spans_begin(record_content *r);
/* Records of kind 10. */
bool decode_unwritten(record_content *r, cursor *c);
/* Records that say how long they are. */
bool decode_sized(record_content *r, cursor *c, uint8_t kind);
