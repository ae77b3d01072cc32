#include "record/content.h"

#include <stdlib.h>
#include <string.h>

void *row_array_add(row_array *a, size_t row_size)
{
    if (a->count == a->capacity) {
        size_t capacity = a->capacity ? a->capacity * 2 : 32;
        void *rows = realloc(a->rows, capacity * row_size);
        if (rows == NULL) {
            return NULL;
        }
        a->rows = rows;
        a->capacity = capacity;
    }
    void *row = (char *)a->rows + row_size * a->count++;
    memset(row, 0, row_size);
    return row;
}

static void free_columns(column *columns, int count)
{
    for (int i = 0; i < count; i++) {
        free(columns[i].data);
    }
}

void record_content_free(record_content *r)
{
    char **troubles = r->troubles.rows;
    for (size_t i = 0; i < r->troubles.count; i++) {
        free(troubles[i]);
    }
    free(r->troubles.rows);
    free(r->meta.rows);
    free(r->codes.rows);
    free(r->threads.rows);
    free(r->groups.rows);
    free(r->notes.rows);
    free(r->names.rows);
    free(r->lanes.rows);
    code_table_free(&r->name_table);
    code_table_free(&r->lane_table);
    free_columns(r->paths, PATH_COLUMNS);
    free_columns(r->samples, SAMPLE_COLUMNS);
    free_columns(r->events, EVENT_COLUMNS);
    free_columns(r->done, DONE_COLUMNS);
    free_columns(r->unwritten, UNWRITTEN_COLUMNS);
    free_columns(r->spans, SPAN_COLUMNS);
    free_columns(r->attributes, ATTRIBUTE_COLUMNS);
    free_columns(r->span_totals, SPAN_TOTAL_COLUMNS);
    free_columns(r->totals, TOTAL_COLUMNS);
    free_columns(r->open, OPEN_COLUMNS);
    free(r->bytes);
    memset(r, 0, sizeof *r);
}
