#include "recorder/calls.h"

#include "base/clocks.h"
#include "record/kinds.h"
#include "record/writer.h"
#include "recorder/lock.h"
#include "recorder/state.h"
#include "recorder/thinning.h"

/* What of a call's flags is written, with the level at which it was thinned: the caller's own may be higher. */
static uint32_t written_flags(uint32_t flags, uint32_t level)
{
    uint32_t given = flags >> EVENT_LEVEL_SHIFT;
    return (flags & 0x7fu) | (given > level ? given : level) << EVENT_LEVEL_SHIFT;
}

static void count_one(const event_record *e)
{
    const total_amount amount = {e->path, e->operation, e->group, 1, e->nbytes, e->duration_ns, e->cpu_ns};
    total_add(&rec.totals, &amount);
}

/* A call that has just begun, but for its number. */
static event_record begun_event(const call_arguments *call, uint32_t level, uint32_t thread, uint32_t path,
                                uint64_t enter_ns, uint64_t cpu_enter_ns)
{
    return (event_record){
        .thread = thread,
        .operation = call->operation,
        .group = call->group,
        .path = path,
        .seq = call->seq,
        .peer = call->peer,
        .tag = call->tag,
        .nbytes = call->nbytes,
        .completes = call->completes,
        .enter_ns = enter_ns,
        .cpu_enter_ns = cpu_enter_ns,
        .flags = written_flags(call->flags, level),
    };
}

static void end_event(event_record *e, uint64_t exit_ns, uint64_t cpu_ns)
{
    e->duration_ns = exit_ns > e->enter_ns ? exit_ns - e->enter_ns : 0;
    e->cpu_ns = cpu_ns;
}

/* NULL when no such call is open. */
static open_call *open_call_of(uint64_t event)
{
    for (uint32_t i = rec.open_top; i > 0; i--) {
        if (rec.open[i - 1].used && rec.open[i - 1].event.id == event) {
            return &rec.open[i - 1];
        }
    }
    return NULL;
}

static void free_open_call(open_call *call)
{
    call->used = false;
    while (rec.open_top > 0 && !rec.open[rec.open_top - 1].used) {
        rec.open_top--;
    }
}

uint64_t recorder_begin(const call_arguments *call, pid_t tid, uint32_t thread, uint32_t path, uint64_t enter_ns,
                        uint64_t cpu_ns)
{
    uint64_t id = 0;
    recorder_lock();
    if (recorder_is_on()) {
        uint32_t slot = 0;
        while (slot < rec.open_top && rec.open[slot].used) {
            slot++;
        }
        if (slot < OPEN_CALLS) {
            uint32_t level = recorder_level_locked();
            bool kept = recorder_keeps_locked(call, level);
            id = ++rec.serial * 2 + (kept ? 0 : 1);
            rec.open[slot].used = true;
            rec.open[slot].tid = tid;
            rec.open[slot].event = begun_event(call, level, thread, path, enter_ns, cpu_ns);
            rec.open[slot].event.id = id;
            if (slot >= rec.open_top) {
                rec.open_top = slot + 1;
            }
        } else if (!rec.open_full_noted) {
            rec.open_full_noted = true;
            recorder_note_locked("more than 1024 calls open at once: some were not recorded");
        }
    }
    recorder_unlock();
    return id;
}

void recorder_end(uint64_t event, int64_t source, pid_t tid)
{
    if (event && recorder_is_on()) {
        recorder_end_at(event, source, tid, clock_wall_ns(), clock_own_cpu_ns());
    }
}

void recorder_end_at(uint64_t event, int64_t source, pid_t tid, uint64_t now_ns, uint64_t own_cpu_ns)
{
    if (event == 0) {
        return;
    }
    recorder_lock();
    open_call *call = open_call_of(event);
    if (call && recorder_is_on()) {
        event_record *e = &call->event;
        uint64_t cpu = own_cpu_ns;
        if (call->tid != tid && !clock_thread_cpu_ns(call->tid, &cpu)) {
            cpu = e->cpu_enter_ns;
        }
        end_event(e, now_ns, cpu > e->cpu_enter_ns ? cpu - e->cpu_enter_ns : 0);
        if (source >= 0) {
            e->peer = source;
        }
        if ((event & 1) == 0) {
            record_event(&rec.writer, e);
        }
        if (e->flags & EVENT_POST) {
            rec.posts[(event >> 1) & (POSTS - 1)] = (posted){event, call->tid};
        }
        count_one(e);
        free_open_call(call);
    }
    recorder_unlock();
}

void recorder_end_as(uint64_t event, const uint64_t *ids, size_t count, pid_t tid, uint64_t now_ns, uint64_t cpu_ns)
{
    recorder_lock();
    open_call *call = open_call_of(event);
    if (call && recorder_is_on()) {
        event_record *e = &call->event;
        end_event(e, now_ns, call->tid == tid && cpu_ns > e->cpu_enter_ns ? cpu_ns - e->cpu_enter_ns : 0);
        uint32_t level = recorder_level_locked();
        for (size_t i = 0; i < count; i++) {
            const call_arguments taken = {.operation = e->operation, .seq = ids[i], .flags = e->flags};
            if (recorder_keeps_locked(&taken, level)) {
                e->seq = ids[i];
                e->flags = written_flags(e->flags, level);
                record_event(&rec.writer, e);
                e->id = ++rec.serial * 2;
            }
        }
        if (count) {
            count_one(e);
        }
        free_open_call(call);
    }
    recorder_unlock();
}

/* Before a call: how long the thread was in calls that were not written, up to there. */
static void write_unwritten(const call_arguments *call, uint32_t thread, uint64_t enter_ns)
{
    if (call->unwritten_ns) {
        record_unwritten(&rec.writer, thread, enter_ns - call->unwritten_ns, call->unwritten_ns,
                         call->unwritten_cpu_ns);
    }
}

uint64_t recorder_event_at(const call_arguments *call, uint32_t thread, uint32_t path, uint64_t enter_ns,
                           uint64_t exit_ns, uint64_t cpu_enter_ns, uint64_t cpu_ns)
{
    uint64_t id = 0;
    recorder_lock();
    if (recorder_is_on()) {
        uint32_t level = recorder_level_locked();
        bool kept = recorder_keeps_locked(call, level);
        id = ++rec.serial * 2 + (kept ? 0 : 1);
        event_record e = begun_event(call, level, thread, path, enter_ns, cpu_enter_ns);
        end_event(&e, exit_ns, cpu_ns);
        e.id = id;
        if (kept) {
            write_unwritten(call, thread, enter_ns);
            record_event(&rec.writer, &e);
        }
        if ((call->flags & EVENT_UNCOUNTED) == 0) {
            count_one(&e);
        }
    }
    recorder_unlock();
    return id;
}

void recorder_completions_at(const call_arguments *call, const uint64_t *completes, size_t count, uint32_t thread,
                             uint32_t path, uint64_t enter_ns, uint64_t exit_ns, uint64_t cpu_enter_ns,
                             uint64_t cpu_ns)
{
    recorder_lock();
    if (recorder_is_on()) {
        uint32_t level = recorder_level_locked();
        event_record e = begun_event(call, level, thread, path, enter_ns, cpu_enter_ns);
        end_event(&e, exit_ns, cpu_ns);
        write_unwritten(call, thread, enter_ns);
        for (size_t i = 0; i < count; i++) {
            if ((completes[i] & 1) == 0) {
                e.id = ++rec.serial * 2;
                e.completes = completes[i];
                record_event(&rec.writer, &e);
            }
        }
        if ((call->flags & EVENT_UNCOUNTED) == 0) {
            count_one(&e);
        }
    }
    recorder_unlock();
}

void recorder_count_locked(const total_amount *amount)
{
    if (recorder_is_on()) {
        total_add(&rec.totals, amount);
    }
}

void recorder_count(const total_amount *amount)
{
    recorder_lock();
    recorder_count_locked(amount);
    recorder_unlock();
}

void recorder_done(uint64_t event, int64_t source)
{
    if (event == 0 || (event & 1) || !recorder_is_on()) {
        return;
    }
    uint64_t now = clock_wall_ns();
    uint64_t cpu = 0;
    recorder_lock();
    if (recorder_is_on()) {
        const posted *post = &rec.posts[(event >> 1) & (POSTS - 1)];
        pid_t tid = 0;
        if (post->event == event) {
            tid = post->tid;
        } else {
            const open_call *call = open_call_of(event); /* complete before its post has returned */
            tid = call ? call->tid : 0;
        }
        if (tid == 0 || !clock_thread_cpu_ns(tid, &cpu)) {
            cpu = 0;
        }
        record_done(&rec.writer, event, now, cpu, source);
    }
    recorder_unlock();
}

void recorder_sample(uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us, uint64_t core_wait_us,
                     uint32_t state)
{
    recorder_lock();
    if (recorder_is_on()) {
        record_sample(&rec.writer, thread, time_ns, path, cpu_us, core_wait_us, state);
    }
    recorder_unlock();
}
