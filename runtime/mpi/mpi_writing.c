/* What of a call is counted, and what is written. */
#include "calls_internal.h"

#include "record_keys.h"

static inline void grow(total_amount *sum, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns)
{
    thread_totals_grow(&sum->calls, 1);
    thread_totals_grow(&sum->nbytes, call->nbytes);
    thread_totals_grow(&sum->wall_ns, wall_ns);
    thread_totals_grow(&sum->cpu_ns, cpu_ns);
}

/* A call that is not of the kind that was counted at its site before. */
APART static void count_anew(const call_state *s, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns)
{
    total_amount *sum = agent.total_of(s->thread, s->path, call->operation, call->group);
    if (s->site) {
        s->site->sum = sum;
    }
    if (sum) {
        grow(sum, call, wall_ns, cpu_ns);
    } else {
        const total_amount one = {s->path, call->operation, call->group, 1, call->nbytes, wall_ns, cpu_ns};
        recorder()->count(&one);
    }
}

ALWAYS_INLINE void add_to_sums(const call_state *s, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns)
{
    total_amount *sum = s->site ? s->site->sum : NULL;
    if (sum && sum->path == s->path && sum->operation == call->operation && sum->group == call->group) {
        grow(sum, call, wall_ns, cpu_ns);
    } else {
        count_anew(s, call, wall_ns, cpu_ns);
    }
}

OFTEN_RUN void count_call(const call_state *s, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns)
{
    add_to_sums(s, call, wall_ns, cpu_ns);
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
    bool sends = call->operation == OPERATION_SEND || call->operation == OPERATION_BLOCKING_SEND;
    if (!sends && call->operation != OPERATION_RECV) {
        return is_kept(key_of_collective(on->name_hash, call->seq), level);
    }
    if (call->peer < 0 || (call->flags & (EVENT_ANY_SOURCE | EVENT_NUMBERED)) == EVENT_ANY_SOURCE) {
        return true;
    }
    return is_kept(key_of_message(sends ? on->me : call->peer, sends ? call->peer : on->me, call->tag, call->seq), level);
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
    uint32_t level = rate_level();
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
    add_to_sums(s, call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    uint32_t level = rate_level();
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
    add_to_sums(s, &s->call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    if (written) {
        write_completed(s, events, written);
    }
    note_written(s, written > 0);
}
