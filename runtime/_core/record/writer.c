#include "record/writer.h"

#include "record/encode.h"
#include "record/kinds.h"

static size_t bounded(size_t size)
{
    return size < LONGEST_STRING ? size : LONGEST_STRING;
}

void record_meta(record_writer *w, const char *key, size_t key_size, const char *value, size_t value_size)
{
    key_size = bounded_text(key, key_size);
    value_size = bounded_text(value, value_size);
    if (begin_record(w, RECORD_META, 2, key_size + value_size)) {
        put_bytes(w, key, key_size);
        put_bytes(w, value, value_size);
    }
}

void record_note(record_writer *w, const char *text, size_t size)
{
    size = bounded_text(text, size);
    if (begin_record(w, RECORD_NOTE, 1, size)) {
        put_bytes(w, text, size);
    }
}

void record_code(record_writer *w, uint32_t id, const char *file, size_t file_size, const char *name,
                 size_t name_size, uint32_t first_line, uint32_t minor, const uint8_t *table, size_t table_size)
{
    file_size = bounded_text(file, file_size);
    name_size = bounded_text(name, name_size);
    table_size = bounded(table_size);
    if (begin_record(w, RECORD_CODE, 6, file_size + name_size + table_size)) {
        put(w, id);
        put_bytes(w, file, file_size);
        put_bytes(w, name, name_size);
        put(w, first_line);
        put(w, minor);
        put_bytes(w, table, table_size);
    }
}

void record_path(record_writer *w, uint32_t id, uint32_t parent, uint32_t code, uint32_t lasti)
{
    if (begin_record(w, RECORD_PATH, 4, 0)) {
        put(w, id);
        put(w, parent);
        put(w, code);
        put(w, lasti);
    }
}

void record_thread(record_writer *w, uint32_t index, uint64_t tid, const char *name, size_t size, uint32_t flags)
{
    if (begin_record(w, RECORD_THREAD, 4, size)) {
        put(w, index);
        put(w, tid);
        put_bytes(w, name, size);
        put(w, flags);
    }
}

void record_time(record_writer *w, uint64_t now_ns)
{
    put_time(w, now_ns);
}

void record_sample(record_writer *w, uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us,
                   uint64_t core_wait_us, uint32_t state)
{
    need_base(w, time_ns);
    if (begin_record(w, RECORD_SAMPLE, 6, 0)) {
        int64_t us = from_base(w, time_ns) / 1000;
        put(w, thread);
        put_signed(w, us - w->sample_us);
        put(w, path);
        put(w, cpu_us);
        put(w, core_wait_us);
        put(w, state);
        w->sample_us = us;
    }
}

/* How many of the ranks from `at` on follow each other in equal steps. */
static uint32_t stride_length(const uint32_t *ranks, uint32_t at, uint32_t members)
{
    uint32_t end = at + 1;
    while (end < members && (int64_t)ranks[end] - ranks[end - 1] == (int64_t)ranks[at + 1] - ranks[at]) {
        end++;
    }
    return end - at;
}

static uint32_t count_strides(const uint32_t *ranks, uint32_t members)
{
    uint32_t strides = 0;
    for (uint32_t at = 0; at < members; at += stride_length(ranks, at, members)) {
        strides++;
    }
    return strides;
}

static void put_strided_group(record_writer *w, uint32_t id, const char *name, size_t size, uint32_t my_rank,
                              uint32_t members, const uint32_t *ranks, uint32_t strides)
{
    if (begin_record(w, RECORD_STRIDED_GROUP, 4 + 3 * (size_t)strides, size)) {
        put(w, id);
        put_bytes(w, name, size);
        put(w, my_rank);
        put(w, strides);
        for (uint32_t at = 0; at < members;) {
            uint32_t length = stride_length(ranks, at, members);
            put(w, ranks[at]);
            put_signed(w, length > 1 ? (int64_t)ranks[at + 1] - ranks[at] : 0);
            put(w, length);
            at += length;
        }
    }
}

/* Whichever way of naming the members is shorter: most groups are every nth of a range of ranks. */
void record_group(record_writer *w, uint32_t id, const char *name, size_t size, uint32_t my_rank, uint32_t members,
                  const uint32_t *ranks)
{
    size = bounded_text(name, size);
    uint32_t strides = count_strides(ranks, members);
    if (3 * (uint64_t)strides < members) {
        put_strided_group(w, id, name, size, my_rank, members, ranks, strides);
        return;
    }
    if (begin_record(w, RECORD_GROUP, 4 + (size_t)members, size)) {
        put(w, id);
        put_bytes(w, name, size);
        put(w, my_rank);
        put(w, members);
        for (uint32_t i = 0; i < members; i++) {
            put(w, ranks[i]);
        }
    }
}

void record_event(record_writer *w, const event_record *e)
{
    need_base(w, e->enter_ns);
    if (begin_record(w, RECORD_EVENT, 15, 0)) {
        put(w, e->id);
        put(w, e->thread);
        put(w, e->operation);
        put(w, e->group);
        put(w, e->seq);
        put_signed(w, e->peer);
        put_signed(w, e->tag);
        put(w, e->nbytes);
        put(w, e->flags);
        put_signed(w, from_base(w, e->enter_ns));
        put(w, e->duration_ns);
        put(w, e->cpu_enter_ns);
        put(w, e->cpu_ns);
        put(w, e->path);
        put(w, e->completes);
    }
}

void record_done(record_writer *w, uint64_t event, uint64_t time_ns, uint64_t cpu_ns, int64_t source)
{
    need_base(w, time_ns);
    if (begin_record(w, RECORD_DONE, 4, 0)) {
        put(w, event);
        put_signed(w, from_base(w, time_ns));
        put(w, cpu_ns);
        put_signed(w, source);
    }
}

void record_unwritten(record_writer *w, uint32_t thread, uint64_t start_ns, uint64_t duration_ns, uint64_t cpu_ns)
{
    need_base(w, start_ns);
    if (begin_record(w, RECORD_UNWRITTEN, 7, 0)) {
        put(w, UNWRITTEN_CALLS);
        put(w, thread);
        put_bytes(w, "", 0);
        put_signed(w, from_base(w, start_ns));
        put(w, duration_ns);
        put(w, cpu_ns);
        put(w, 0);
    }
}

void record_total(record_writer *w, const total_amount *sum)
{
    if (begin_record(w, RECORD_TOTAL, 7, 0)) {
        put(w, sum->path);
        put(w, sum->operation);
        put(w, sum->group);
        put(w, sum->calls);
        put(w, sum->nbytes);
        put(w, sum->wall_ns);
        put(w, sum->cpu_ns);
    }
}

void record_open(record_writer *w, const event_record *e)
{
    need_base(w, e->enter_ns);
    if (begin_record(w, RECORD_OPEN, 8, 0)) {
        put(w, e->thread);
        put(w, e->id);
        put(w, e->operation);
        put(w, e->group);
        put(w, e->seq);
        put_signed(w, e->peer);
        put(w, e->path);
        put_signed(w, from_base(w, e->enter_ns));
    }
}

void record_end(record_writer *w, uint64_t time_ns, int64_t status)
{
    need_base(w, time_ns);
    if (begin_record(w, RECORD_END, 2, 0)) {
        put_signed(w, from_base(w, time_ns));
        put_signed(w, status);
    }
}
