/* Decodes a record file into tables and columns. Knows nothing of Python. The counterpart of record_writer.h. */
#ifndef SCALANA_RECORD_READER_H
#define SCALANA_RECORD_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "column.h"
#include "intern.h"

/* Columns, in the order of the fields of each kind of record. Times are absolute. */
enum sample_column { SAMPLE_THREAD, SAMPLE_TIME, SAMPLE_PATH, SAMPLE_CPU, SAMPLE_CORE_WAIT, SAMPLE_STATE, SAMPLE_COLUMNS };
enum event_column {
    EV_ID, EV_THREAD, EV_OPERATION, EV_GROUP, EV_SEQ, EV_PEER, EV_TAG, EV_BYTES, EV_FLAGS, EV_ENTER, EV_DURATION,
    EV_CPU_ENTER, EV_CPU, EV_PATH, EV_COMPLETES, EVENT_COLUMNS
};
enum done_column { DONE_EVENT, DONE_TIME, DONE_CPU, DONE_SOURCE, DONE_COLUMNS };
enum interval_column { IV_TYPE, IV_THREAD, IV_NAME, IV_START, IV_DURATION, IV_CPU, IV_PATH, INTERVAL_COLUMNS };
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
    row_array names;                               /* text: names of intervals */
    code_table name_table;                         /* the same by content */
    row_array troubles;                            /* char *: what could not be read */
    column paths[PATH_COLUMNS], samples[SAMPLE_COLUMNS], events[EVENT_COLUMNS], done[DONE_COLUMNS],
        intervals[INTERVAL_COLUMNS], totals[TOTAL_COLUMNS], open[OPEN_COLUMNS];
    bool ended;
    int64_t status;
    uint64_t first_ns, last_ns; /* earliest and latest moment seen; 0 when there is none */
    uint64_t blocks;
    bool dense_paths; /* ids of paths are 0, 1, 2 ... */
} record_content;

enum read_result { READ_OK, READ_SYSTEM_ERROR /* errno */, READ_NOT_A_RECORD, READ_OTHER_VERSION, READ_NO_MEMORY };

enum read_result record_read(const char *path, record_content *content);
void record_content_free(record_content *content);
/* Writes the world ranks of a group's members. */
void record_group_ranks(const read_group *group, int32_t *ranks);

#endif
