#include "calls/scratch.h"

#include <stdlib.h>

#include "handles/library.h"

OWN scratch_space *scratch;

scratch_space *own_scratch(int count)
{
    if (scratch == NULL) {
        scratch = calloc(1, sizeof *scratch);
    }
    if (scratch && scratch->capacity < count) {
        int capacity = scratch->capacity ? scratch->capacity : 16;
        while (capacity < count) {
            capacity *= 2;
        }
        free(scratch->handles);
        free(scratch->statuses);
        free(scratch->events);
        free(scratch->taken);
        scratch->handles = calloc((size_t)capacity, sizeof *scratch->handles);
        scratch->statuses = calloc((size_t)capacity, sizeof *scratch->statuses);
        scratch->events = calloc(2 * (size_t)capacity, sizeof *scratch->events);
        scratch->taken = calloc((size_t)capacity, sizeof *scratch->taken);
        bool whole = scratch->handles && scratch->statuses && scratch->events && scratch->taken;
        scratch->capacity = whole ? capacity : 0;
    }
    return scratch && scratch->capacity >= count ? scratch : NULL;
}
