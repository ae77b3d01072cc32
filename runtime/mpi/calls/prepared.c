#include "calls/prepared.h"

#include "calls/calls.h"
#include "calls/writing.h"
#include "handles/channels.h"
#include "handles/requests.h"
#include "record/kinds.h"

/* Partitioned messages meet no others, and among each other in the order in which they were prepared: the nth of a tag
 * have a channel of their own. */
static int64_t tag_of_partitioned(uint32_t group, int64_t peer, int64_t tag, bool sends)
{
    const int64_t prepared = (int64_t)1 << 62;
    return tag + ((int64_t)(1 + next_message(group, peer, prepared + tag, sends)) << 32);
}

void leave_prepared(call_state *s, MPI_Request handle, MPI_Comm comm, int peer, int tag, uint64_t nbytes,
                    enum prepared_kind kind, int partitions)
{
    s->on = communicator_of(comm);
    const uint32_t group = peer == MPI_PROC_NULL && kind != PREPARED_COLLECTIVE ? 0 : recorded_group(s->on);
    const int64_t other = world_rank(s->on, peer);
    int64_t channel_tag = kind == PREPARED_COLLECTIVE ? 0 : tag;
    if (partitions && group) {
        channel_tag = tag_of_partitioned(group, other, tag, kind == PREPARED_SEND);
    }
    requests_lock();
    request *r = remember(s, HANDLE(handle), 0);
    if (r) {
        request_is_special(r);
        r->persistent = true;
        r->active = false;
        r->wildcard = kind == PREPARED_RECEIVE && (peer == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
        r->sends = kind == PREPARED_SEND;
        r->collective = kind == PREPARED_COLLECTIVE;
        r->on = communicator_held(s->on);
        r->call = s->call;
        r->call.nbytes = nbytes;
        r->call.peer = other;
        r->call.tag = channel_tag;
        r->call.group = group;
        r->partitions = partitions;
        r->call.flags = EVENT_POST | (r->wildcard ? EVENT_ANY_SOURCE : 0u);
        r->group = r->call.group;
        r->peer = r->call.peer;
    }
    requests_unlock();
    leave_counted(s);
}

/* The post of a prepared request, now that it has begun. */
static void post_prepared(const call_state *s, MPI_Request handle, request copy, uint64_t step)
{
    if (copy.collective && copy.on) {
        copy.call.seq = __atomic_fetch_add(&copy.on->collectives, 1, __ATOMIC_RELAXED);
    } else if (copy.call.group) {
        copy.call.seq = next_message(copy.call.group, copy.call.peer, copy.call.tag, copy.sends);
    }
    uint64_t event = write_post_inside(s, copy.call, copy.on, step);
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    if (r) {
        bool receives = copy.call.group && !copy.sends && !copy.collective && !copy.partitions;
        r->event = event;
        r->seq = r->call.seq = copy.call.seq;
        r->tag = receives ? (int32_t)copy.call.tag : NO_RECEIVE;
    }
    requests_unlock();
}

/* How many bytes it is about. */
static uint64_t start_one(const call_state *s, MPI_Request handle, uint64_t step)
{
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    bool known = r && r->special && r->persistent;
    request copy = {0};
    if (known) {
        r->active = true;
        r->times = times_of(s);
        r->times.enter_ns = r->times.exit_ns = s->enter_ns + step;
        r->times.cpu_ns = 0;
        r->event = 0;
        r->ready = 0;
        copy = *r;
    }
    requests_unlock();
    bool later = copy.wildcard || (copy.partitions && copy.sends);
    if (known && !later) {
        post_prepared(s, handle, copy, step);
    }
    return copy.call.nbytes;
}

/* A partitioned message is on its way as a whole when the last of its parts is ready. */
void leave_ready(call_state *s, MPI_Request handle, int count)
{
    returned(s);
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    bool last = false;
    request copy = {0};
    if (r && r->special && r->active && r->partitions && count > 0) {
        r->ready += count;
        last = r->ready >= r->partitions;
        copy = *r;
    }
    requests_unlock();
    if (last) {
        post_prepared(s, handle, copy, 0);
    }
    const call_arguments ready = {.operation = START};
    count_call(s, &ready, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    leave(s);
}

void leave_start(call_state *s, int count, const MPI_Request *handles)
{
    call_arguments start = {.operation = START};
    returned(s);
    for (int i = 0; i < count; i++) {
        start.nbytes += start_one(s, handles[i], (uint64_t)i);
    }
    count_call(s, &start, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    leave(s);
}
