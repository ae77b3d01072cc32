#include "record/decode.h"

#include "record/decode_spans.h"
#include "record/kinds.h"

static void set_widths(column *columns, int count, uint32_t wide)
{
    for (int i = 0; i < count; i++) {
        columns[i].width = 1;
        columns[i].widest = wide >> i & 1 ? 8 : 4;
    }
}

/* ---- records ---- */

/* Members of a group that names them in strides (first rank, step, count); sets c->bad if they are too many. */
static uint64_t strided_members(cursor *c, uint64_t strides)
{
    uint64_t members = 0;
    for (uint64_t i = 0; i < strides && !c->bad; i++) {
        take(c);
        take_signed(c);
        uint64_t count = take(c);
        c->bad = c->bad || count > RECORD_GROUP_MAX || (members += count) > RECORD_GROUP_MAX;
    }
    return members;
}

/* Its members are looked at by record_group_ranks(), if they are wanted. */
static bool read_group_record(record_content *r, cursor *c, bool strided)
{
    read_group g = {.strided = strided};
    g.id = take(c);
    g.name = take_text(c);
    g.my_rank = take(c);
    uint64_t entries = take(c);
    if (c->bad || entries > (uint64_t)(c->end - c->at)) { /* an entry is at least one byte */
        c->bad = true;
        return true;
    }
    g.ranks.at = c->at;
    if (strided) {
        g.members = strided_members(c, entries);
    } else {
        g.members = entries;
        for (uint64_t i = 0; i < entries && !c->bad; i++) {
            take(c);
        }
    }
    if (c->bad) {
        return true;
    }
    g.ranks.size = (size_t)(c->at - g.ranks.at);
    read_group *row = row_array_add(&r->groups, sizeof *row);
    if (row == NULL) {
        return false;
    }
    *row = g;
    return true;
}

static int32_t as_rank(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

void record_group_ranks(const read_group *group, int32_t *ranks)
{
    cursor c = {.at = group->ranks.at, .end = group->ranks.at + group->ranks.size};
    uint64_t known = 0;
    while (known < group->members && c.at < c.end) {
        int64_t rank = (int64_t)take(&c);
        int64_t step = group->strided ? take_signed(&c) : 0;
        uint64_t count = group->strided ? take(&c) : 1;
        for (uint64_t i = 0; i < count; i++) {
            ranks[known++] = as_rank(rank);
            rank = (int64_t)((uint64_t)rank + (uint64_t)step);
        }
    }
}

bool decode_record(record_content *r, cursor *c)
{
    uint8_t kind = *c->at++;
    int64_t v[16];
    switch (kind) {
    case RECORD_META: {
        read_meta m = {take_text(c), {NULL, 0}};
        m.value = take_text(c);
        read_meta *row = c->bad ? NULL : row_array_add(&r->meta, sizeof *row);
        if (row) {
            *row = m;
        }
        return c->bad || row;
    }
    case RECORD_CODE: {
        read_code code = {0};
        code.id = take(c);
        code.content.at = c->at;
        code.file = take_text(c);
        code.name = take_text(c);
        code.first_line = take(c);
        code.minor = take(c);
        code.table = take_text(c);
        code.content.size = (size_t)(c->at - code.content.at);
        read_code *row = c->bad ? NULL : row_array_add(&r->codes, sizeof *row);
        if (row) {
            *row = code;
        }
        return c->bad || row;
    }
    case RECORD_PATH:
        for (int i = 0; i < PATH_COLUMNS; i++) {
            v[i] = (int64_t)take(c);
        }
        if (c->bad) {
            return true;
        }
        r->dense_paths = r->dense_paths && v[PATH_ID] == (int64_t)r->paths[PATH_ID].count;
        return push_all(r->paths, PATH_COLUMNS, v);
    case RECORD_THREAD: {
        read_thread t = {0};
        t.index = take(c);
        t.tid = take(c);
        t.name = take_text(c);
        t.flags = take(c);
        read_thread *row = c->bad ? NULL : row_array_add(&r->threads, sizeof *row);
        if (row) {
            *row = t;
        }
        return c->bad || row;
    }
    case RECORD_TIME:
        c->base_ns = take(c);
        c->sample_us = 0;
        if (!c->bad) {
            saw(r, c->base_ns);
        }
        return true;
    case RECORD_SAMPLE:
        v[SAMPLE_THREAD] = (int64_t)take(c);
        c->sample_us = (int64_t)((uint64_t)c->sample_us + (uint64_t)take_signed(c));
        v[SAMPLE_TIME] = (int64_t)(c->base_ns + (uint64_t)c->sample_us * 1000);
        v[SAMPLE_PATH] = (int64_t)take(c);
        v[SAMPLE_CPU] = (int64_t)take(c);
        v[SAMPLE_CORE_WAIT] = (int64_t)take(c);
        v[SAMPLE_STATE] = (int64_t)take(c);
        if (c->bad) {
            return true;
        }
        if (v[SAMPLE_STATE] & STATE_CPU_UNKNOWN) {
            v[SAMPLE_STATE] &= ~(int64_t)STATE_CPU_UNKNOWN;
            v[SAMPLE_CPU] = v[SAMPLE_CORE_WAIT] = -1;
        }
        saw(r, (uint64_t)v[SAMPLE_TIME]);
        return push_all(r->samples, SAMPLE_COLUMNS, v);
    case RECORD_GROUP:
    case RECORD_STRIDED_GROUP:
        return read_group_record(r, c, kind == RECORD_STRIDED_GROUP);
    case RECORD_EVENT:
        for (int i = EV_ID; i <= EV_SEQ; i++) {
            v[i] = (int64_t)take(c);
        }
        v[EV_PEER] = take_signed(c);
        v[EV_TAG] = take_signed(c);
        v[EV_BYTES] = (int64_t)take(c);
        v[EV_FLAGS] = (int64_t)take(c);
        v[EV_ENTER] = (int64_t)take_time(c);
        for (int i = EV_DURATION; i <= EV_COMPLETES; i++) {
            v[i] = (int64_t)take(c);
        }
        if (c->bad) {
            return true;
        }
        if (v[EV_FLAGS] & EVENT_CPU_UNKNOWN) {
            v[EV_FLAGS] &= ~(int64_t)EVENT_CPU_UNKNOWN;
            v[EV_CPU_ENTER] = v[EV_CPU] = -1;
        }
        saw(r, (uint64_t)v[EV_ENTER]);
        saw(r, (uint64_t)v[EV_ENTER] + (uint64_t)v[EV_DURATION]);
        return push_all(r->events, EVENT_COLUMNS, v);
    case RECORD_DONE:
        v[DONE_EVENT] = (int64_t)take(c);
        v[DONE_TIME] = (int64_t)take_time(c);
        v[DONE_CPU] = (int64_t)take(c);
        v[DONE_SOURCE] = take_signed(c);
        if (c->bad) {
            return true;
        }
        saw(r, (uint64_t)v[DONE_TIME]);
        return push_all(r->done, DONE_COLUMNS, v);
    case RECORD_UNWRITTEN:
        return decode_unwritten(r, c);
    case RECORD_TOTAL:
        for (int i = 0; i < TOTAL_COLUMNS; i++) {
            v[i] = (int64_t)take(c);
        }
        return c->bad || push_all(r->totals, TOTAL_COLUMNS, v);
    case RECORD_OPEN:
        for (int i = OPEN_THREAD; i <= OPEN_SEQ; i++) {
            v[i] = (int64_t)take(c);
        }
        v[OPEN_PEER] = take_signed(c);
        v[OPEN_PATH] = (int64_t)take(c);
        v[OPEN_ENTER] = (int64_t)take_time(c);
        v[OPEN_AS_OF] = (int64_t)c->base_ns;
        return c->bad || push_all(r->open, OPEN_COLUMNS, v);
    case RECORD_NOTE: {
        text note = take_text(c);
        text *row = c->bad ? NULL : row_array_add(&r->notes, sizeof *row);
        if (row) {
            *row = note;
        }
        return c->bad || row;
    }
    case RECORD_END: {
        uint64_t end = take_time(c);
        int64_t status = take_signed(c);
        if (!c->bad) {
            saw(r, end);
            r->ended = true;
            r->status = status;
        }
        return true;
    }
    default:
        if (kind >= RECORD_SIZED) {
            return decode_sized(r, c, kind);
        }
        c->bad = true;
        return true;
    }
}

bool content_begin(record_content *r)
{
    set_widths(r->paths, PATH_COLUMNS, 0);
    set_widths(r->samples, SAMPLE_COLUMNS, 1u << SAMPLE_TIME | 1u << SAMPLE_CPU | 1u << SAMPLE_CORE_WAIT);
    set_widths(r->events, EVENT_COLUMNS,
               1u << EV_ID | 1u << EV_SEQ | 1u << EV_TAG | 1u << EV_BYTES | 1u << EV_ENTER | 1u << EV_DURATION |
                   1u << EV_CPU_ENTER | 1u << EV_CPU | 1u << EV_COMPLETES);
    set_widths(r->done, DONE_COLUMNS, 1u << DONE_EVENT | 1u << DONE_TIME | 1u << DONE_CPU);
    set_widths(r->unwritten, UNWRITTEN_COLUMNS, 1u << UNWRITTEN_START | 1u << UNWRITTEN_DURATION | 1u << UNWRITTEN_CPU);
    set_widths(r->spans, SPAN_COLUMNS,
               1u << SP_START | 1u << SP_DURATION | 1u << SP_CPU | 1u << SP_EVENT | 1u << SP_STEP | 1u << SP_LAST);
    set_widths(r->attributes, ATTRIBUTE_COLUMNS, 1u << ATTR_VALUE);
    set_widths(r->span_totals, SPAN_TOTAL_COLUMNS, 1u << ST_COUNT | 1u << ST_WALL | 1u << ST_CPU);
    set_widths(r->totals, TOTAL_COLUMNS, 1u << TOTAL_CALLS | 1u << TOTAL_BYTES | 1u << TOTAL_WALL | 1u << TOTAL_CPU);
    set_widths(r->open, OPEN_COLUMNS, 1u << OPEN_EVENT | 1u << OPEN_SEQ | 1u << OPEN_ENTER | 1u << OPEN_AS_OF);
    const int64_t root[PATH_COLUMNS] = {0};
    r->dense_paths = true;
    return push_all(r->paths, PATH_COLUMNS, root) && spans_begin(r);
}
