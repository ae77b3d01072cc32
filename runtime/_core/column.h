#ifndef SCALANA_COLUMN_H
#define SCALANA_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing array of integers, as narrow as its values allow; `data` is NULL while empty. */
typedef struct {
    void *data;
    size_t count, capacity; /* in values */
    size_t width;           /* bytes per value: 1, 2, 4 or 8 */
    size_t widest;          /* the same at most; what is wider is cut: 4 or 8 */
} column;

/* Appends a value, and widens the column if need be. False when memory is short. */
bool column_push(column *c, int64_t value);

#endif
