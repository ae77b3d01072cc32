#include "calls/writing.h"

#include "record/keys.h"
#include "record/kinds.h"

COLD void count_anew(native_thread *thread, call_site *site, const total_amount *one)
{
    total_amount *row = agent.total_of(thread, one->path, one->operation, one->group);
    if (site) {
        site->sum = row;
    }
    if (row) {
        thread_totals_add(row, one);
    } else {
        recorder()->count(one);
    }
}

OFTEN_RUN void count_call(const call_state *s, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns)
{
    add_to_sums(s->thread, s->site, s->path, call->operation, call->group, call->nbytes, wall_ns, cpu_ns);
}

/* Whether a call is a send or a receive, which both ends know by their channel. */
ALWAYS_INLINE bool is_message(const call_arguments *call)
{
    return call->operation == OPERATION_SEND || call->operation == OPERATION_BLOCKING_SEND ||
           call->operation == OPERATION_RECV;
}

/* The level at which a call is thinned out. */
ALWAYS_INLINE uint32_t level_of(const call_arguments *call, const communicator *on)
{
    uint32_t level = rate_level();
    return level && on && call->group && !is_message(call) ? level_of_collective(call->seq, level) : level;
}

/* Whether a call is among those that are written at this level: on all ranks that take part, or on none. */
ALWAYS_INLINE bool is_written(const call_arguments *call, const communicator *on, uint32_t level)
{
    static OWN uint64_t alone;
    if (level == 0 || (call->operation >= WIN_POST && call->operation <= WIN_WAIT)) {
        return true; /* the two sides of an epoch know it by different names */
    }
    if (on == NULL || call->group == 0) {
        return is_kept(hash_finish(++alone), level); /* meets nobody */
    }
    if (!is_message(call)) {
        return is_kept(key_of_collective(on->name_hash, call->seq), level);
    }
    bool sends = call->operation != OPERATION_RECV;
    if (call->peer < 0 || (call->flags & (EVENT_ANY_SOURCE | EVENT_NUMBERED)) == EVENT_ANY_SOURCE) {
        return true;
    }
    return is_kept(key_of_message(hash_of_channel(on->me, call->peer, call->tag, sends), call->seq), level);
}

/* Writes a call. `own` is its thread where it comes after all that this has written, or NULL. */
static uint64_t write_now(const native_thread *own, const call_arguments *call, uint32_t level, const call_times *times)
{
    call_arguments written = *call;
    written.flags |= EVENT_UNCOUNTED | level << EVENT_LEVEL_SHIFT;
    written.unwritten_ns = own ? own->unwritten_ns : 0;
    written.unwritten_cpu_ns = own ? own->unwritten_cpu_ns : 0;
    agent.rate_wrote(times->exit_ns, 1);
    return recorder()->event_at(&written, times->thread, times->path, times->enter_ns, times->exit_ns,
                                times->cpu_enter_ns, times->cpu_ns);
}

uint64_t write_call(const call_arguments *call, const communicator *on, const call_times *times)
{
    uint32_t level = level_of(call, on);
    return is_written(call, on, level) ? write_now(NULL, call, level, times) : NOT_WRITTEN;
}

call_times times_of(const call_state *s)
{
    return (call_times){s->thread->index, s->path, s->enter_ns, s->exit_ns, s->cpu_ns, s->cpu_inside_ns};
}

/* Keeps in mind how long a thread is in calls between two that are written. */
static void note_written(const call_state *s, bool written)
{
    native_thread *t = s->thread;
    if (written) {
        t->unwritten_ns = t->unwritten_cpu_ns = 0;
    } else {
        t->unwritten_ns += s->exit_ns - s->enter_ns;
        t->unwritten_cpu_ns += s->cpu_inside_ns;
    }
}

APART static uint64_t write_own(const call_state *s, const call_arguments *call, uint32_t level)
{
    const call_times times = times_of(s);
    uint64_t event = write_now(s->thread, call, level, &times);
    note_written(s, (event & 1) == 0);
    return event;
}

OFTEN_RUN uint64_t write_event(const call_state *s, const call_arguments *call)
{
    count_call(s, call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    uint32_t level = level_of(call, s->on);
    if (is_written(call, s->on, level)) {
        return write_own(s, call, level);
    }
    note_written(s, false);
    return NOT_WRITTEN;
}

/* A post at a moment of a call that counts itself: `step` ns after its beginning. */
OFTEN_RUN uint64_t write_post_inside(const call_state *s, call_arguments call, const communicator *on, uint64_t step)
{
    call_times times = times_of(s);
    call.flags = (call.flags | EVENT_POST) & ~(uint32_t)EVENT_BLOCKING;
    times.enter_ns = times.exit_ns = s->enter_ns + step;
    times.cpu_ns = 0;
    return write_call(&call, on, &times);
}

APART static void write_completed(const call_state *s, const uint64_t *events, size_t count)
{
    call_arguments call = s->call;
    call.flags |= EVENT_UNCOUNTED | rate_level() << EVENT_LEVEL_SHIFT;
    call.unwritten_ns = s->thread->unwritten_ns;
    call.unwritten_cpu_ns = s->thread->unwritten_cpu_ns;
    agent.rate_wrote(s->exit_ns, count);
    recorder()->completions_at(&call, events, count, s->thread->index, s->path, s->enter_ns, s->exit_ns, s->cpu_ns,
                               s->cpu_inside_ns);
}

/* Posts that were not written have no completion either. */
OFTEN_RUN void write_completions(const call_state *s, uint64_t *events, size_t count)
{
    size_t written = 0;
    for (size_t i = 0; i < count; i++) {
        if ((events[i] & 1) == 0) {
            events[written++] = events[i];
        }
    }
    count_call(s, &s->call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    if (written) {
        write_completed(s, events, written);
    }
    note_written(s, written > 0);
}
