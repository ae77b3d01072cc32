#include "record/decode_spans.h"

#include <string.h>

#include "base/checksum.h"
#include "record/kinds.h"

/* In files of version 1 lanes have no ids of their own; in others, none is as large. */
#define LANE_OF_THREAD (UINT64_C(1) << 48)
#define LONGEST_STEP_NAME 18

/* Row of a name, which is added if it is new; -1 when memory is short. */
static int64_t name_row(record_content *r, text name)
{
    uint64_t hash[2];
    for (unsigned i = 0; i < 2; i++) {
        hash[i] = hash_finish(hash_word(hash_bytes(HASH_SEED + i, name.at, name.size), name.size));
    }
    bool fresh;
    uint32_t id = code_by_content(&r->name_table, hash, true, &fresh);
    if (fresh) {
        text *row = row_array_add(&r->names, sizeof *row);
        if (row == NULL) {
            return -1;
        }
        *row = name;
    }
    return (int64_t)id - 1;
}

/* The row that an id of the file stands for; 0 where its definition was lost. NULL when memory is short. */
static uint32_t *row_of(code_table *table, uint64_t id)
{
    code_address *entry = code_at(table, id);
    return entry ? &entry->id : NULL;
}

/* Row of a lane, which is added if its id is new; -1 when memory is short. */
static int64_t lane_row(record_content *r, uint64_t id, read_lane lane)
{
    uint32_t *known = row_of(&r->lane_table, id);
    if (known == NULL) {
        return -1;
    }
    if (*known == 0) {
        read_lane *row = row_array_add(&r->lanes, sizeof *row);
        if (row == NULL) {
            return -1;
        }
        *row = lane;
        *known = (uint32_t)(r->lanes.count - 1);
    }
    return *known;
}

bool spans_begin(record_content *r)
{
    const text empty = {(const uint8_t *)"", 0};
    read_lane *unknown = row_array_add(&r->lanes, sizeof *unknown);
    if (unknown == NULL) {
        return false;
    }
    *unknown = (read_lane){LANE_OTHER, -1, empty};
    return name_row(r, empty) == 0;
}

/* ---- version 1 ---- */

/* Steps were named by their numbers. */
static int64_t step_number(text name)
{
    int64_t number = 0;
    for (size_t i = 0; i < name.size; i++) {
        if (name.at[i] < '0' || name.at[i] > '9' || name.size > LONGEST_STEP_NAME) {
            return -1;
        }
        number = number * 10 + (name.at[i] - '0');
    }
    return name.size ? number : -1;
}

static bool see_span(record_content *r, int64_t *v)
{
    v[SP_LAST] = (int64_t)r->attributes[ATTR_KEY].count;
    saw(r, (uint64_t)v[SP_START]);
    saw(r, (uint64_t)v[SP_START] + (uint64_t)v[SP_DURATION]);
    return push_all(r->spans, SPAN_COLUMNS, v);
}

bool decode_unwritten(record_content *r, cursor *c)
{
    int64_t v[SPAN_COLUMNS] = {0};
    uint64_t type = take(c), thread = take(c);
    text name = take_text(c);
    v[SP_START] = (int64_t)take_time(c);
    v[SP_DURATION] = (int64_t)take(c);
    v[SP_CPU] = (int64_t)take(c);
    v[SP_PATH] = (int64_t)take(c);
    if (c->bad) {
        return true;
    }
    if (type == UNWRITTEN_CALLS) {
        const int64_t row[UNWRITTEN_COLUMNS] = {(int64_t)thread, v[SP_START], v[SP_DURATION], v[SP_CPU]};
        saw(r, (uint64_t)v[SP_START]);
        saw(r, (uint64_t)v[SP_START] + (uint64_t)v[SP_DURATION]);
        return push_all(r->unwritten, UNWRITTEN_COLUMNS, row);
    }
    const read_lane lane = {LANE_THREAD, thread < INT32_MAX ? (int64_t)thread : INT32_MAX, {(const uint8_t *)"", 0}};
    v[SP_TYPE] = (int64_t)type;
    v[SP_STEP] = type == SPAN_STEP ? step_number(name) : -1;
    v[SP_LANE] = lane_row(r, LANE_OF_THREAD + thread, lane);
    v[SP_NAME] = name_row(r, name);
    return v[SP_LANE] >= 0 && v[SP_NAME] >= 0 && see_span(r, v);
}

/* ---- later versions ---- */

static bool decode_string(record_content *r, cursor *c)
{
    uint64_t id = take(c);
    text string = take_text(c);
    if (c->bad) {
        return true;
    }
    int64_t row = name_row(r, string);
    uint32_t *known = row < 0 ? NULL : row_of(&r->string_table, id);
    if (known) {
        *known = (uint32_t)row;
    }
    return known != NULL;
}

static bool decode_lane(record_content *r, cursor *c)
{
    uint64_t id = take(c);
    read_lane lane = {take(c), 0, {NULL, 0}};
    uint64_t thread = take(c);
    lane.thread = thread <= INT32_MAX ? (int64_t)thread - 1 : -1;
    lane.name = take_text(c);
    return c->bad || id == 0 || lane_row(r, id, lane) >= 0;
}

/* Replaces an id of the file by the row that it stands for. */
static bool translate(code_table *table, int64_t *id)
{
    if (*id == 0) {
        return true;
    }
    uint32_t *row = row_of(table, (uint64_t)*id);
    *id = row ? *row : 0;
    return row != NULL;
}

static int64_t take_bits(cursor *c)
{
    uint64_t bits = 0;
    if (c->end - c->at < 8) {
        c->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < 8; i++) {
        bits |= (uint64_t)*c->at++ << (8 * i);
    }
    return (int64_t)bits;
}

static int64_t take_value(cursor *c, int64_t tag)
{
    switch (tag) {
    case ATTRIBUTE_NUMBER:
        return take_signed(c);
    case ATTRIBUTE_REAL:
        return take_bits(c);
    default:
        return (int64_t)take(c);
    }
}

/* The attributes of a span; none of them are left if it cannot be read. */
static bool decode_attributes(record_content *r, cursor *c)
{
    size_t before = r->attributes[ATTR_KEY].count;
    uint64_t count = take(c);
    bool room = true;
    for (uint64_t i = 0; i < count && room && !c->bad; i++) {
        int64_t v[ATTRIBUTE_COLUMNS];
        v[ATTR_KEY] = (int64_t)take(c);
        v[ATTR_TAG] = (int64_t)take(c);
        v[ATTR_VALUE] = take_value(c, v[ATTR_TAG]);
        room = translate(&r->string_table, &v[ATTR_KEY]) &&
               (v[ATTR_TAG] != ATTRIBUTE_TEXT || translate(&r->string_table, &v[ATTR_VALUE]));
        room = room && (c->bad || push_all(r->attributes, ATTRIBUTE_COLUMNS, v));
    }
    for (int i = 0; c->bad && i < ATTRIBUTE_COLUMNS; i++) {
        r->attributes[i].count = before;
    }
    return room;
}

static bool decode_span(record_content *r, cursor *c)
{
    int64_t v[SPAN_COLUMNS];
    for (int i = SP_TYPE; i <= SP_NAME; i++) {
        v[i] = (int64_t)take(c);
    }
    v[SP_START] = (int64_t)take_time(c);
    v[SP_DURATION] = (int64_t)take(c);
    v[SP_CPU] = (int64_t)(take(c) - 1);
    v[SP_PATH] = (int64_t)take(c);
    v[SP_EVENT] = (int64_t)take(c);
    v[SP_STEP] = (int64_t)(take(c) - 1);
    if (c->bad) {
        return true;
    }
    if (!translate(&r->lane_table, &v[SP_LANE]) || !translate(&r->string_table, &v[SP_NAME]) ||
        !decode_attributes(r, c)) {
        return false;
    }
    return c->bad || see_span(r, v);
}

static bool decode_span_total(record_content *r, cursor *c)
{
    int64_t v[SPAN_TOTAL_COLUMNS];
    for (int i = 0; i < SPAN_TOTAL_COLUMNS; i++) {
        v[i] = (int64_t)take(c);
    }
    if (c->bad) {
        return true;
    }
    return translate(&r->lane_table, &v[ST_LANE]) && translate(&r->string_table, &v[ST_NAME]) &&
           push_all(r->span_totals, SPAN_TOTAL_COLUMNS, v);
}

bool decode_sized(record_content *r, cursor *c, uint8_t kind)
{
    uint64_t size = take(c);
    if (c->bad || size > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        return true;
    }
    cursor body = *c;
    body.end = c->at + size;
    bool room = true;
    switch (kind) {
    case RECORD_STRING:
        room = decode_string(r, &body);
        break;
    case RECORD_LANE:
        room = decode_lane(r, &body);
        break;
    case RECORD_SPAN:
        room = decode_span(r, &body);
        break;
    case RECORD_SPAN_TOTAL:
        room = decode_span_total(r, &body);
        break;
    default:
        r->skipped[kind]++;
    }
    c->at += size; /* a newer writer may have added fields */
    c->bad = body.bad;
    return room;
}
