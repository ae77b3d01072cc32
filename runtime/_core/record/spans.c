#include "record/spans.h"

#include "record/encode.h"

/* Begins a record that says how long it is. Returns where its body is; 0 when there is no room. */
static size_t begin_sized(record_writer *w, enum record_kind kind, size_t fields, size_t text)
{
    if (!begin_record(w, kind, fields + 1, text)) {
        return 0;
    }
    w->active.size++; /* bodies of less than 128 bytes have a size of one byte */
    return w->active.size;
}

static void end_sized(record_writer *w, size_t body)
{
    size_t size = w->active.size - body, rest = size, more = 0;
    while (rest >= 0x80) {
        rest >>= 7;
        more++;
    }
    if (more) {
        memmove(w->active.data + body + more, w->active.data + body, size);
    }
    w->active.size = body - 1;
    put(w, size);
    w->active.size = body + more + size;
}

void record_string(record_writer *w, uint32_t id, const char *text, size_t size)
{
    size = bounded_text(text, size);
    size_t body = begin_sized(w, RECORD_STRING, 2, size);
    if (body) {
        put(w, id);
        put_bytes(w, text, size);
        end_sized(w, body);
    }
}

void record_lane(record_writer *w, uint32_t id, enum lane_kind kind, int64_t thread, const char *name, size_t size)
{
    size = bounded_text(name, size);
    size_t body = begin_sized(w, RECORD_LANE, 4, size);
    if (body) {
        put(w, id);
        put(w, (uint64_t)kind);
        put(w, (uint64_t)(thread + 1));
        put_bytes(w, name, size);
        end_sized(w, body);
    }
}

static void put_real(record_writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++) {
        put_byte(w, (uint8_t)(bits >> (8 * i)));
    }
}

static void put_attribute(record_writer *w, const span_attribute *a)
{
    put(w, a->key);
    put_byte(w, (uint8_t)a->tag);
    switch (a->tag) {
    case ATTRIBUTE_NUMBER:
        put_signed(w, a->number);
        break;
    case ATTRIBUTE_REAL:
        put_real(w, a->real);
        break;
    case ATTRIBUTE_TEXT:
    default:
        put(w, a->text);
    }
}

void record_span(record_writer *w, const span_record *s)
{
    need_base(w, s->start_ns);
    size_t body = begin_sized(w, RECORD_SPAN, 10 + 3 * (size_t)s->attribute_count, 0);
    if (body) {
        put(w, s->type);
        put(w, s->lane);
        put(w, s->name);
        put_signed(w, from_base(w, s->start_ns));
        put(w, s->duration_ns);
        put(w, (uint64_t)(s->cpu_ns + 1));
        put(w, s->path);
        put(w, s->event);
        put(w, (uint64_t)(s->step + 1));
        put(w, s->attribute_count);
        for (uint32_t i = 0; i < s->attribute_count; i++) {
            put_attribute(w, &s->attributes[i]);
        }
        end_sized(w, body);
    }
}

void record_span_total(record_writer *w, const span_amount *sum)
{
    size_t body = begin_sized(w, RECORD_SPAN_TOTAL, 7, 0);
    if (body) {
        put(w, sum->type);
        put(w, sum->lane);
        put(w, sum->name);
        put(w, sum->path);
        put(w, sum->count);
        put(w, sum->wall_ns);
        put(w, sum->cpu_ns);
        end_sized(w, body);
    }
}
