/* Decodes a record file into tables and columns. Knows nothing of Python. The counterpart of writer.h. */
#pragma once

#include "record/content.h"

enum read_result { READ_OK, READ_SYSTEM_ERROR /* errno */, READ_NOT_A_RECORD, READ_OTHER_VERSION, READ_NO_MEMORY };

enum read_result record_read(const char *path, record_content *content);

/* What later blocks need of a block, and what only speaks of its own time: whoever follows a file that grows keeps the
 * first of all blocks, and the second of the last blocks alone. */
typedef struct {
    size_t definitions, rest;   /* bytes written to either */
    uint64_t first_ns, last_ns; /* earliest and latest moment in it, 0 when there is none */
    uint64_t progress_ns;       /* latest moment at which the program came further: a call or a span ended; 0 when none */
    bool ended;                 /* it holds the end of the record */
    bool bad;                   /* an unreadable record was met: what follows it is left out */
} split_result;

/* Copies the records of a block's payload to `definitions` and `rest`, which have room for `size` bytes each, in their
 * order. Sums since the start belong to neither. False when memory is short. */
bool record_split(const uint8_t *payload, size_t size, uint8_t *definitions, uint8_t *rest, split_result *result);
