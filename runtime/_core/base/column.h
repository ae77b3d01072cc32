#pragma once

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

/* The rest of column_push(): there is no room for the value, or it is too wide. */
bool column_push_grown(column *c, int64_t value);

/* Appends a value, and widens the column if need be. False when memory is short. */
static inline bool column_push(column *c, int64_t value)
{
    if (c->count == c->capacity) {
        return column_push_grown(c, value);
    }
    switch (c->width) {
    case 1:
        if (value == (int8_t)value) {
            ((int8_t *)c->data)[c->count++] = (int8_t)value;
            return true;
        }
        break;
    case 2:
        if (value == (int16_t)value) {
            ((int16_t *)c->data)[c->count++] = (int16_t)value;
            return true;
        }
        break;
    case 4:
        if (value == (int32_t)value) {
            ((int32_t *)c->data)[c->count++] = (int32_t)value;
            return true;
        }
        break;
    default:
        ((int64_t *)c->data)[c->count++] = value;
        return true;
    }
    return column_push_grown(c, value);
}
