/* Spans: what has a begin, an end and a name. Which of them are kept when the budget runs low, and the steps they are
 * in. */
#include "recorder/spans.h"

#include <stdatomic.h>
#include <string.h>

#include "record/keys.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "recorder/state.h"
#include "recorder/thinning.h"

/* What lies outside of all steps is kept up to this level. */
#define OUTSIDE_LEVEL 2u
/* From this level on steps themselves are left out as well: a program may make them without end. */
#define STEPS_LEVEL 7u
/* A step whose own spans raise the level by so much is cut off there. */
#define STEP_LEVELS 3u

static _Atomic int64_t current_step = -1;

/* Two hashes of a text that is of some kind. */
static void content_of(uint64_t kind, const char *text, size_t size, uint64_t hash[2])
{
    uint64_t a = hash_mix(HASH_SEED, kind), b = hash_mix(HASH_SEED + 1, kind);
    for (size_t i = 0; i < size; i++) { /* both at once: each waits for its own multiplications */
        a = (a ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
        b = (b ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    }
    hash[0] = hash_finish(hash_mix(a, size));
    hash[1] = hash_finish(hash_mix(b, size));
}

uint32_t recorder_string_locked(const char *text, size_t size)
{
    uint64_t hash[2];
    bool fresh;
    content_of(0, text, size, hash);
    uint32_t id = code_by_content(&rec.strings, hash, recorder_may_define_locked(), &fresh);
    if (fresh) {
        record_string(&rec.writer, id, text, size);
    }
    return id;
}

uint32_t recorder_lane_locked(enum lane_kind kind, int64_t thread, const char *name, size_t size)
{
    uint64_t hash[2];
    bool fresh;
    content_of((uint64_t)(thread + 1) << 8 | kind, name, size, hash);
    uint32_t id = code_by_content(&rec.lanes, hash, recorder_may_define_locked(), &fresh);
    if (fresh) {
        record_lane(&rec.writer, id, kind, thread, name, size);
    }
    return id;
}

uint32_t recorder_thread_lane_locked(uint32_t thread)
{
    if (thread >= rec.thread_count) {
        return 0;
    }
    thread_row *row = &rec.threads[thread];
    if (row->lane == 0) {
        row->lane = recorder_lane_locked(LANE_THREAD, thread, "", 0);
    }
    return row->lane;
}

/* ---- thinning ---- */

int64_t recorder_current_step(void)
{
    return atomic_load_explicit(&current_step, memory_order_relaxed);
}

static bool is_kept_step(const step_level *step)
{
    return is_kept(key_of_step(step->number), step->level);
}

/* Whether a span is kept. Those of a step all are, or none: as many of them are written after its end. */
static bool keeps_locked(const span_record *span)
{
    if (span->type == SPAN_STEP) {
        uint32_t level = recorder_level_locked();
        return level < STEPS_LEVEL || is_kept(key_of_step(span->step), level - STEPS_LEVEL);
    }
    uint32_t level = recorder_span_level_locked();
    if (span->step < 0) {
        return level < OUTSIDE_LEVEL;
    }
    step_level *step = span->step == rec.step.before.number ? &rec.step.before : &rec.step.now;
    step_level other = {.number = span->step, .level = level};
    if (span->step != step->number) {
        step = &other;
    }
    if (!is_kept_step(step)) {
        return false;
    }
    step->cut = step->cut || level >= step->level + STEP_LEVELS;
    return !step->cut;
}

static void count_locked(const span_record *span)
{
    span_amount amount = {
        .type = span->type,
        .lane = span->lane,
        .name = span->name,
        .path = span->path,
        .count = 1,
        .wall_ns = span->duration_ns,
        .cpu_ns = span->cpu_ns > 0 ? (uint64_t)span->cpu_ns : 0,
    };
    if (!span_total_add(&rec.span_totals, &amount)) {
        amount.name = amount.path = 0;
        span_total_add(&rec.span_totals, &amount);
    }
}

void recorder_span_locked(const span_record *span)
{
    if (!recorder_is_on()) {
        return;
    }
    count_locked(span);
    if (keeps_locked(span)) {
        record_span(&rec.writer, span);
    } else if (!rec.spans_thinned) {
        rec.spans_thinned = true;
        recorder_note_locked("size budget: the spans of some steps are only counted");
    }
}

void recorder_write_span_totals_locked(void)
{
    span_total_table *t = &rec.span_totals;
    for (uint32_t i = 0; rec.spans_thinned && i < t->index.count; i++) {
        if (t->rows[i].changed) {
            record_span_total(&rec.writer, &t->rows[i].sum);
            t->rows[i].changed = false;
        }
    }
}

/* ---- steps ---- */

static const char *const sources[STEP_SOURCES] = {"", "user", "trainer", "optimizer", "schedule"};

static uint32_t text_locked(const char *text)
{
    return recorder_string_locked(text, strlen(text));
}

/* The step that ends now, with where it comes from and whether its spans are not all there. */
static void write_step_locked(pid_t tid, uint32_t thread, uint32_t path, uint64_t now_ns, uint64_t cpu_ns)
{
    const step_state *s = &rec.step;
    bool whole = is_kept_step(&s->now) && !s->now.cut;
    const span_attribute attributes[] = {
        {.key = text_locked("source"), .tag = ATTRIBUTE_TEXT, .text = text_locked(sources[s->source])},
        {.key = whole ? 0 : text_locked("thinned"), .tag = ATTRIBUTE_NUMBER, .number = 1},
    };
    const span_record span = {
        .type = SPAN_STEP,
        .lane = recorder_thread_lane_locked(thread),
        .name = text_locked("step"),
        .path = path,
        .start_ns = s->start_ns,
        .duration_ns = now_ns > s->start_ns ? now_ns - s->start_ns : 0,
        .cpu_ns = s->tid == tid && cpu_ns >= s->cpu_ns ? (int64_t)(cpu_ns - s->cpu_ns) : -1,
        .step = s->now.number,
        .attributes = attributes,
        .attribute_count = whole ? 1 : 2,
    };
    recorder_span_locked(&span);
}

static void begin_step_locked(int64_t number, pid_t tid, uint64_t now_ns, uint64_t cpu_ns)
{
    step_state *s = &rec.step;
    s->before = s->now;
    s->now = (step_level){.number = number, .level = recorder_span_level_locked()};
    s->start_ns = now_ns;
    s->cpu_ns = cpu_ns;
    s->tid = tid;
    atomic_store(&current_step, number);
}

void recorder_begin_steps(pid_t tid, uint64_t now_ns, uint64_t cpu_ns)
{
    recorder_lock();
    if (recorder_is_on()) {
        begin_step_locked(rec.step.source ? rec.step.now.number : 0, tid, now_ns, cpu_ns);
    }
    recorder_unlock();
}

void recorder_mark_step(enum step_source source, pid_t tid, uint32_t thread, uint32_t path, uint64_t now_ns,
                        uint64_t cpu_ns)
{
    step_state *s = &rec.step;
    recorder_lock();
    if (recorder_is_on() && (s->source == 0 || source <= s->source)) {
        if (s->source == 0) {
            s->now.number = 0; /* the mark number n ends step n, on ranks that know where it began and others */
        } else if (source < s->source) {
            s->now.number = 0;
            s->start_ns = 0;
        }
        s->source = source;
        if (s->start_ns) {
            write_step_locked(tid, thread, path, now_ns, cpu_ns);
        }
        begin_step_locked(s->now.number + 1, tid, now_ns, cpu_ns);
    }
    recorder_unlock();
}

void recorder_spans_begin_locked(void)
{
    rec.step.now.number = rec.step.before.number = -1;
    atomic_store(&current_step, -1);
}

void recorder_spans_forget(void)
{
    code_table_free(&rec.strings);
    code_table_free(&rec.lanes);
    span_total_table_free(&rec.span_totals);
}
