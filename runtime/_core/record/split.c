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
