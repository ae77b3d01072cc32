/* One record after the other, from the bytes of a block into tables and columns. */
#pragma once

#include "record/cursor.h"

/* Makes the columns of an empty content, and the root of its paths. False when memory is short. */
bool content_begin(record_content *r);
/* One record. False when memory is short; an unreadable one sets c->bad. */
bool decode_record(record_content *r, cursor *c);
/* Writes the world ranks of a group's members. */
void record_group_ranks(const read_group *group, int32_t *ranks);
