#include "calls/windows.h"

#include "calls/calls.h"
#include "handles/communicators.h"
#include "record/kinds.h"

void begin_on_handle(call_state *s, uint32_t operation, uint64_t handle, int target, uint64_t nbytes, bool collective)
{
    communicator *on = handle_communicator(handle);
    if (collective) {
        begin_on(s, operation, on, -1, nbytes);
    } else {
        begin_plain(s, operation, recorded_group(on), world_rank(on, target));
        s->call.nbytes = nbytes;
        s->call.seq = on ? __atomic_fetch_add(&on->accesses, 1, __ATOMIC_RELAXED) : 0;
    }
}

void begin_lock(call_state *s, uint32_t operation, MPI_Win win, int target, bool exclusive)
{
    begin_on_handle(s, operation, HANDLE(win), target, 0, false);
    s->call.tag = exclusive ? LOCK_EXCLUSIVE : LOCK_SHARED;
}

/* ---- post, start, complete, wait ---- */

/* The ends of an epoch name those whom its beginning named. */
static void in_epoch(call_state *s, uint32_t operation, communicator *on, bool exposure)
{
    s->call.operation = operation;
    s->call.flags = EVENT_BLOCKING;
    if (on && on->generation == generation_now()) {
        s->call.group = on->epoch[exposure];
        s->call.seq = on->epochs[exposure] - 1;
    }
    show(s);
}

void begin_epoch(call_state *s, uint32_t operation, MPI_Win win, MPI_Group group, bool exposure)
{
    communicator *on = handle_communicator(HANDLE(win));
    recorded_group(on);
    if (on) {
        on->epoch[exposure] = recorded_partners(on, group);
        on->epochs[exposure]++;
    }
    in_epoch(s, operation, on, exposure);
}

void begin_epoch_end(call_state *s, uint32_t operation, MPI_Win win, bool exposure)
{
    in_epoch(s, operation, handle_communicator(HANDLE(win)), exposure);
}

void leave_epoch_test(call_state *s, int ended)
{
    if (ended) {
        leave_collective(s);
    } else {
        s->call.operation = TEST;
        s->call.group = 0;
        leave_counted(s);
    }
}
