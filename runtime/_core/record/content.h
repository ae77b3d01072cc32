/* What a record holds, as tables and columns. Knows nothing of Python. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/column.h"
#include "base/intern.h"

/* Columns, in the order of the fields of each kind of record. Times are absolute. */
enum sample_column { SAMPLE_THREAD, SAMPLE_TIME, SAMPLE_PATH, SAMPLE_CPU, SAMPLE_CORE_WAIT, SAMPLE_STATE, SAMPLE_COLUMNS };
enum event_column {
    EV_ID, EV_THREAD, EV_OPERATION, EV_GROUP, EV_SEQ, EV_PEER, EV_TAG, EV_BYTES, EV_FLAGS, EV_ENTER, EV_DURATION,
    EV_CPU_ENTER, EV_CPU, EV_PATH, EV_COMPLETES, EVENT_COLUMNS
};
enum done_column { DONE_EVENT, DONE_TIME, DONE_CPU, DONE_SOURCE, DONE_COLUMNS };
enum unwritten_column { UNWRITTEN_THREAD, UNWRITTEN_START, UNWRITTEN_DURATION, UNWRITTEN_CPU, UNWRITTEN_COLUMNS };
/* Names, keys and texts are rows of `names`, lanes rows of `lanes`; 0 is unknown. */
enum span_column {
    SP_TYPE, SP_LANE, SP_NAME, SP_START, SP_DURATION, SP_CPU /* -1 unknown */, SP_PATH, SP_EVENT, SP_STEP /* -1 none */,
    SP_LAST /* attributes up to here, those of the spans before included */, SPAN_COLUMNS
};
enum attribute_column { ATTR_KEY, ATTR_TAG, ATTR_VALUE /* a number, the bits of a double, or a name */, ATTRIBUTE_COLUMNS };
enum span_total_column { ST_TYPE, ST_LANE, ST_NAME, ST_PATH, ST_COUNT, ST_WALL, ST_CPU, SPAN_TOTAL_COLUMNS };
enum total_column { TOTAL_PATH, TOTAL_OPERATION, TOTAL_GROUP, TOTAL_CALLS, TOTAL_BYTES, TOTAL_WALL, TOTAL_CPU, TOTAL_COLUMNS };
enum open_column { OPEN_THREAD, OPEN_EVENT, OPEN_OPERATION, OPEN_GROUP, OPEN_SEQ, OPEN_PEER, OPEN_PATH, OPEN_ENTER, OPEN_AS_OF, OPEN_COLUMNS };
enum path_column { PATH_ID, PATH_PARENT, PATH_CODE, PATH_LASTI, PATH_COLUMNS };

/* A string of the file: where it stands. */
typedef struct {
    const uint8_t *at;
    size_t size;
} text;

typedef struct {
    uint64_t id;
    text content; /* all that follows, as it stands in the file */
    text file, name, table;
    uint64_t first_line, minor;
} read_code;

typedef struct {
    uint64_t index, tid, flags;
    text name;
} read_thread;

typedef struct {
    uint64_t id, my_rank, members;
    text name;
    bool strided;
    text ranks; /* as they stand in the file: one by one, or as strides if `strided` */
} read_group;

typedef struct {
    uint64_t kind;
    int64_t thread; /* -1 none */
    text name;
} read_lane;

typedef struct {
    text key, value;
} read_meta;

typedef struct {
    void *rows;
    size_t count, capacity;
} row_array;

typedef struct {
    uint8_t *bytes; /* the file; the texts point into it */
    size_t size;
    row_array meta, codes, threads, groups, notes; /* read_meta, read_code, read_thread, read_group, text */
    row_array names;                               /* text: of spans, each once; the first is empty */
    code_table name_table, string_table;           /* their rows by content, and by their ids in the file */
    row_array lanes;                               /* read_lane; the first is unknown */
    code_table lane_table;                         /* by their ids in the file */
    row_array troubles;                            /* char *: what could not be read */
    column paths[PATH_COLUMNS], samples[SAMPLE_COLUMNS], events[EVENT_COLUMNS], done[DONE_COLUMNS],
        unwritten[UNWRITTEN_COLUMNS], spans[SPAN_COLUMNS], attributes[ATTRIBUTE_COLUMNS],
        span_totals[SPAN_TOTAL_COLUMNS], totals[TOTAL_COLUMNS], open[OPEN_COLUMNS];
    uint64_t skipped[256]; /* records of a kind that is not known */
    bool ended;
    int64_t status;
    uint64_t first_ns, last_ns; /* earliest and latest moment seen; 0 when there is none */
    uint64_t blocks;
    bool dense_paths; /* ids of paths are 0, 1, 2 ... */
} record_content;

/* A row of zeros at the end; NULL when memory is short. */
void *row_array_add(row_array *a, size_t row_size);
void record_content_free(record_content *content);

/* Appends one value to each column of a table, or to none. */
static inline bool push_all(column *columns, int count, const int64_t *values)
{
    for (int i = 0; i < count; i++) {
        if (!column_push(&columns[i], values[i])) {
            for (int j = 0; j < i; j++) {
                columns[j].count--;
            }
            return false;
        }
    }
    return true;
}

static inline void saw(record_content *r, uint64_t time_ns)
{
    if (time_ns > r->last_ns) {
        r->last_ns = time_ns;
    }
    if (time_ns != 0 && (r->first_ns == 0 || time_ns < r->first_ns)) {
        r->first_ns = time_ns;
    }
}
