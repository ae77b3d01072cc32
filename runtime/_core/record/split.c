/* Divides the records of a block: see reader.h. */
#include "record/reader.h"

#include <string.h>

#include "record/decode.h"
#include "record/kinds.h"

enum part { DEFINITION, REST, SUM };

static enum part part_of(uint8_t kind)
{
    switch (kind) {
    case RECORD_META:
    case RECORD_CODE:
    case RECORD_PATH:
    case RECORD_THREAD:
    case RECORD_GROUP:
    case RECORD_STRIDED_GROUP:
    case RECORD_STRING:
    case RECORD_LANE:
    case RECORD_NOTE:
        return DEFINITION;
    case RECORD_TOTAL:
    case RECORD_SPAN_TOTAL:
        return SUM;
    default:
        return REST;
    }
}

static int64_t last_of(const column *c)
{
    size_t at = c->count - 1;
    switch (c->width) {
    case 1:
        return ((const int8_t *)c->data)[at];
    case 2:
        return ((const int16_t *)c->data)[at];
    case 4:
        return ((const int32_t *)c->data)[at];
    default:
        return ((const int64_t *)c->data)[at];
    }
}

static bool leads_on(int64_t operation)
{
    return operation != OPERATION_STORE && operation != OPERATION_TEST;
}

/* When the record that was decoded last says that the program came further; 0 if it does not. Who waits, asks again and
 * again, or collects garbage does not come further. Sums are written where they have changed. */
static uint64_t progress_of(uint8_t kind, const record_content *r, const cursor *c)
{
    int64_t type;
    switch (kind) {
    case RECORD_EVENT:
        return leads_on(last_of(&r->events[EV_OPERATION]))
                   ? (uint64_t)(last_of(&r->events[EV_ENTER]) + last_of(&r->events[EV_DURATION]))
                   : 0;
    case RECORD_TOTAL:
        return leads_on(last_of(&r->totals[TOTAL_OPERATION])) ? c->base_ns : 0;
    case RECORD_SPAN:
        type = r->spans[SP_TYPE].count ? last_of(&r->spans[SP_TYPE]) : SPAN_WAIT;
        return type != SPAN_WAIT && type != SPAN_AWAIT && type != SPAN_COLLECTION
                   ? (uint64_t)(last_of(&r->spans[SP_START]) + last_of(&r->spans[SP_DURATION]))
                   : 0;
    default:
        return 0;
    }
}

bool record_split(const uint8_t *payload, size_t size, uint8_t *definitions, uint8_t *rest, split_result *result)
{
    memset(result, 0, sizeof *result);
    record_content scratch;
    memset(&scratch, 0, sizeof scratch);
    bool good = content_begin(&scratch);
    cursor c = {.at = payload, .end = payload + size};
    while (good && c.at < c.end) {
        const uint8_t *record = c.at;
        good = decode_record(&scratch, &c);
        if (c.bad) {
            result->bad = true;
            break;
        }
        uint64_t progress_ns = good ? progress_of(*record, &scratch, &c) : 0;
        result->progress_ns = progress_ns > result->progress_ns ? progress_ns : result->progress_ns;
        size_t bytes = (size_t)(c.at - record);
        enum part part = part_of(*record);
        if (part == DEFINITION) {
            memcpy(definitions + result->definitions, record, bytes);
            result->definitions += bytes;
        } else if (part == REST) {
            memcpy(rest + result->rest, record, bytes);
            result->rest += bytes;
        }
    }
    result->first_ns = scratch.first_ns;
    result->last_ns = scratch.last_ns;
    result->ended = scratch.ended;
    record_content_free(&scratch);
    return good;
}
