#include "base/column.h"

#include <stdlib.h>

static int64_t value_at(const column *c, size_t i)
{
    switch (c->width) {
    case 1:
        return ((const int8_t *)c->data)[i];
    case 2:
        return ((const int16_t *)c->data)[i];
    case 4:
        return ((const int32_t *)c->data)[i];
    default:
        return ((const int64_t *)c->data)[i];
    }
}

static void put_at(column *c, size_t i, int64_t value)
{
    switch (c->width) {
    case 1:
        ((int8_t *)c->data)[i] = (int8_t)value;
        break;
    case 2:
        ((int16_t *)c->data)[i] = (int16_t)value;
        break;
    case 4:
        ((int32_t *)c->data)[i] = (int32_t)value;
        break;
    default:
        ((int64_t *)c->data)[i] = value;
    }
}

static bool fits(int64_t value, size_t width)
{
    return width == 8 || (value >= -(INT64_C(1) << (8 * width - 1)) && value < INT64_C(1) << (8 * width - 1));
}

static bool reserve(column *c, size_t capacity, size_t width)
{
    void *data = realloc(c->data, capacity * width);
    if (data == NULL) {
        return false;
    }
    c->data = data;
    c->capacity = capacity;
    return true;
}

static bool widen(column *c, int64_t value)
{
    column old = *c;
    size_t width = c->width;
    while (!fits(value, width)) {
        width *= 2;
    }
    if (c->capacity && !reserve(c, c->capacity, width)) {
        return false;
    }
    old.data = c->data;
    c->width = width;
    for (size_t i = c->count; i-- > 0;) { /* from the end: what is read is not yet written over */
        put_at(c, i, value_at(&old, i));
    }
    return true;
}

/* Fields are cut to the widest that their column may be; ids and counts are far below it in any file that a writer
 * made. */
bool column_push_grown(column *c, int64_t value)
{
    if (c->widest == 4) {
        value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
    }
    if (!fits(value, c->width) && !widen(c, value)) {
        return false;
    }
    if (c->count == c->capacity && !reserve(c, c->capacity ? c->capacity * 2 : 256, c->width)) {
        return false;
    }
    put_at(c, c->count++, value);
    return true;
}
