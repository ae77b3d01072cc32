/* What of a call is counted, and what is written. */
#pragma once

#include "calls/call.h"
#include "handles/library.h"
#include "handles/requests.h"

call_times times_of(const call_state *s);
/* A call that is not of the kind that was counted at its site before. */
void count_anew(native_thread *thread, call_site *site, const total_amount *one);

ALWAYS_INLINE void add_to_sums(native_thread *thread, call_site *site, uint32_t path, uint32_t operation, uint32_t group,
                               uint64_t nbytes, uint64_t wall_ns, uint64_t cpu_ns)
{
    total_amount *row = site ? site->sum : NULL;
    if (row && row->path == path && row->operation == operation && row->group == group) {
        thread_totals_grow(&row->calls, 1);
        thread_totals_grow(&row->nbytes, nbytes);
        thread_totals_grow(&row->wall_ns, wall_ns);
        thread_totals_grow(&row->cpu_ns, cpu_ns);
    } else {
        count_anew(thread, site, &(total_amount){path, operation, group, 1, nbytes, wall_ns, cpu_ns});
    }
}

/* Adds a call to the sums of its path. */
void count_call(const call_state *s, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns);
/* Writes a call that is counted elsewhere, if it is among those to be written. Its event, NOT_WRITTEN, or 0. */
uint64_t write_call(const call_arguments *call, const communicator *on, const call_times *times);
/* Counts a call, and writes it likewise. */
uint64_t write_event(const call_state *s, const call_arguments *call);
uint64_t write_post_inside(const call_state *s, call_arguments call, const communicator *on, uint64_t step);
void write_completions(const call_state *s, uint64_t *events, size_t count);
