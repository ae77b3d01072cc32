/* Calls that begin or complete what others have prepared: persistent requests, probes, waits and tests. */
#include "calls_internal.h"

#include <string.h>

#include "checksum.h"

/* ---- persistent requests ---- */

void leave_prepared(call_state *s, MPI_Request handle, MPI_Comm comm, int peer, int tag, uint64_t nbytes,
                    enum prepared_kind kind)
{
    s->on = communicator_of(comm);
    requests_lock();
    request *r = remember(s, HANDLE(handle), 0);
    if (r) {
        request_is_special(r);
        r->persistent = true;
        r->active = false;
        r->wildcard = kind == PREPARED_RECEIVE && (peer == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
        r->sends = kind == PREPARED_SEND;
        r->collective = kind == PREPARED_COLLECTIVE;
        r->on = s->on;
        r->call = s->call;
        r->call.nbytes = nbytes;
        r->call.peer = world_rank(s->on, peer);
        r->call.tag = kind == PREPARED_COLLECTIVE ? 0 : tag;
        r->call.group = peer == MPI_PROC_NULL && kind != PREPARED_COLLECTIVE ? 0 : recorded_group(s->on);
        r->call.flags = EVENT_POST | (r->wildcard ? EVENT_ANY_SOURCE : 0u);
        r->group = r->call.group;
        r->peer = r->call.peer;
    }
    requests_unlock();
    leave_counted(s);
}

static void start_one(const call_state *s, MPI_Request handle, uint64_t step)
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
        copy = *r;
    }
    requests_unlock();
    if (!known || copy.wildcard) {
        return;
    }
    if (copy.collective && copy.on) {
        copy.call.seq = __atomic_fetch_add(&copy.on->collectives, 1, __ATOMIC_RELAXED);
    } else if (copy.call.group) {
        copy.call.seq = next_message(copy.call.group, copy.call.peer, copy.call.tag, copy.sends);
    }
    uint64_t event = write_post_inside(s, copy.call, copy.on, step);
    requests_lock();
    r = request_find(REQUESTS, HANDLE(handle));
    if (r) {
        r->event = event;
        r->seq = r->call.seq = copy.call.seq;
    }
    requests_unlock();
}

void leave_start(call_state *s, int count, const MPI_Request *handles)
{
    returned(s);
    for (int i = 0; i < count; i++) {
        start_one(s, handles[i], (uint64_t)i);
    }
    const call_arguments start = {.operation = START};
    count_call(s, &start, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    leave(s);
}

/* ---- sendrecv: both posts, then a wait for both ---- */

void begin_sendrecv(call_state *s, MPI_Comm comm, int dest, int send_tag, int source, int tag, uint64_t nbytes)
{
    call_state send = *s;
    begin_message(&send, OPERATION_SEND, comm, dest, send_tag, nbytes, true);
    s->second_event = write_post_inside(&send, send.call, send.on, 0);
    begin_message(s, OPERATION_RECV, comm, source, tag, nbytes, false);
}

void leave_sendrecv(call_state *s, const MPI_Status *status)
{
    returned(s);
    if (s->wildcard) {
        settle(&s->call, s->on, status);
    }
    uint64_t both[2] = {s->second_event, write_post_inside(s, s->call, s->on, 1)};
    after_receive(s, both[1]);
    s->enter_ns += 2;
    s->exit_ns = s->exit_ns > s->enter_ns ? s->exit_ns : s->enter_ns;
    s->call.operation = SENDRECV;
    s->call.flags = EVENT_BLOCKING | EVENT_COMPLETION;
    write_completions(s, both, 2);
    leave(s);
}

/* ---- probes ---- */

void begin_probe(call_state *s, MPI_Comm comm, int source, int tag, bool matched)
{
    s->on = communicator_of(comm);
    s->receives = true;
    s->source = source;
    s->tag = tag;
    s->wildcard = source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
    s->call.operation = matched ? OPERATION_RECV : PROBE;
    s->call.flags = EVENT_BLOCKING | (s->wildcard ? EVENT_ANY_SOURCE : 0u);
    s->call.group = source == MPI_PROC_NULL ? 0 : recorded_group(s->on);
    s->call.peer = world_rank(s->on, source);
    s->call.tag = tag;
    show(s);
}

void leave_probe(call_state *s, const MPI_Status *status)
{
    returned(s);
    resolve(&s->call, s->on, status);
    if (status) {
        s->source = status->MPI_SOURCE;
        s->tag = status->MPI_TAG;
    }
    s->call.flags = EVENT_BLOCKING | EVENT_COMPLETION;
    scratch_space *own = own_scratch(1);
    if (own) {
        if (own->probed) {
            write_probe(&own->probe, 0);
        }
        own->probed = true;
        own->probe = *s;
    }
    leave(s);
}

/* The message is taken: this is its receive, and the call that fetches it waits for the same message again. */
void leave_mprobe(call_state *s, const MPI_Status *status, MPI_Message message)
{
    returned(s);
    if (s->wildcard) {
        settle(&s->call, s->on, status);
    } else {
        resolve(&s->call, s->on, status);
        number_message(s, false);
    }
    uint64_t event = write_event(s, &s->call);
    if (status && message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC) {
        requests_lock();
        request *r = request_add(MESSAGES, HANDLE(message));
        if (r) {
            request_is_special(r);
            r->event = event;
            r->call = s->call;
            r->on = s->on;
        }
        requests_unlock();
    }
    leave(s);
}

void leave_improbe(call_state *s, int found, const MPI_Status *status, MPI_Message message)
{
    if (found) {
        leave_mprobe(s, status, message);
    } else {
        s->call.operation = TEST;
        leave_counted(s);
    }
}

void begin_mrecv(call_state *s, MPI_Message message, uint64_t nbytes)
{
    s->call.operation = OPERATION_RECV;
    requests_lock();
    request *r = request_find(MESSAGES, HANDLE(message));
    if (r) {
        s->call = r->call;
        s->on = r->on;
        s->second_event = r->event;
        request_remove(MESSAGES, HANDLE(message));
    }
    requests_unlock();
    s->call.nbytes = nbytes;
    s->call.flags = EVENT_BLOCKING | EVENT_COMPLETION;
    show(s);
}

void leave_mrecv(call_state *s)
{
    returned(s);
    if (s->second_event) {
        write_completions(s, &s->second_event, 1);
    } else {
        s->call.flags = EVENT_BLOCKING;
        s->call.group = 0;
        write_event(s, &s->call);
    }
    leave(s);
}

void leave_imrecv(call_state *s, int result, MPI_Request handle)
{
    returned(s);
    count_call(s, &s->call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    if (result == MPI_SUCCESS && handle != MPI_REQUEST_NULL) {
        requests_lock();
        remember(s, HANDLE(handle), s->second_event);
        requests_unlock();
    }
    leave(s);
}

/* ---- completion ---- */

OFTEN_RUN void begin_wait(call_state *s, uint32_t operation, int count, const MPI_Request *handles)
{
    scratch_space *own = own_scratch(count > 0 ? count : 1);
    s->handles = own && count > 0 ? count : 0;
    if (s->handles) {
        memcpy(own->handles, handles, (size_t)count * sizeof *handles);
        requests_lock();
        for (int i = 0; i < count; i++) {
            request *r = handles[i] == MPI_REQUEST_NULL ? NULL : request_find(REQUESTS, HANDLE(handles[i]));
            if (r) {
                s->call.group = r->group;
                s->call.seq = r->seq;
                s->call.peer = r->peer;
                break;
            }
        }
        requests_unlock();
    }
    s->call.operation = operation;
    s->call.flags = EVENT_BLOCKING | EVENT_COMPLETION;
    show(s);
}

MPI_Status *own_statuses(call_state *s, int count, MPI_Status *statuses)
{
    if (statuses != MPI_STATUSES_IGNORE || s->handles < count || count == 0 || !requests_any_special()) {
        return statuses;
    }
    bool needed = false;
    requests_lock();
    for (int i = 0; i < count && !needed; i++) {
        request *r = scratch->handles[i] == MPI_REQUEST_NULL ? NULL : request_find(REQUESTS, HANDLE(scratch->handles[i]));
        needed = r && r->special && (r->wildcard || r->cancelled);
    }
    requests_unlock();
    return needed ? scratch->statuses : statuses;
}

/* A post that waited for its sender to be known. A persistent one was counted when it was started. */
static uint64_t write_late_post(const call_state *s, const request *r)
{
    if (!r->persistent) {
        call_state post = {.thread = s->thread, .path = r->times.path};
        count_call(&post, &r->call, r->times.exit_ns - r->times.enter_ns, r->times.cpu_ns);
    }
    return write_call(&r->call, r->on, &r->times);
}

/* Completes a request of which more is to be done than of most; unlocks the table. */
COLD static uint64_t completed_special(const call_state *s, MPI_Request handle, const MPI_Status *status)
{
    request *found = request_find(REQUESTS, HANDLE(handle));
    request r;
    bool active = found && found->active && found->special;
    if (active) {
        r = *found;
        if (r.persistent) {
            found->active = false;
        } else {
            request_remove(REQUESTS, HANDLE(handle));
        }
    }
    requests_unlock();
    if (!active) {
        return 0;
    }
    int cancelled = 0;
    if (r.cancelled && status) {
        PMPI_Test_cancelled((MPI_Status *)status, &cancelled);
    }
    if (cancelled) {
        return 0;
    }
    if (r.wildcard && r.event == 0) {
        settle(&r.call, r.on, status);
        r.event = write_late_post(s, &r);
    }
    if (r.made) {
        communicator_made(*r.made, r.identity);
    }
    return r.event;
}

/* Event of the post that a request stands for, recorded now if it waited for its sender to be known. */
static uint64_t completed(const call_state *s, MPI_Request handle, const MPI_Status *status)
{
    if (handle == MPI_REQUEST_NULL) {
        return 0;
    }
    requests_lock();
    uint64_t event = request_complete_plain(HANDLE(handle));
    if (event || !requests_any_special()) {
        requests_unlock();
        return event;
    }
    return completed_special(s, handle, status);
}

OFTEN_RUN void leave_wait(call_state *s, int count, const int *indices, const MPI_Status *statuses)
{
    size_t events = 0;
    returned(s);
    if (statuses == MPI_STATUSES_IGNORE) {
        statuses = NULL;
    }
    for (int i = 0; i < count; i++) {
        int at = indices ? indices[i] : i;
        if (at >= 0 && at < s->handles) {
            uint64_t event = completed(s, scratch->handles[at], statuses ? &statuses[i] : NULL);
            if (event) {
                scratch->events[events++] = event;
            }
        }
    }
    if (events) {
        write_completions(s, scratch->events, events);
    } else {
        s->call.group = 0;
        write_event(s, &s->call);
    }
    leave(s);
}

void leave_test(call_state *s, int count, const int *indices, const MPI_Status *statuses)
{
    if (count > 0) {
        leave_wait(s, count, indices, statuses);
    } else {
        leave_counted(s);
    }
}

void request_freed(MPI_Request handle)
{
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    bool late = r && r->special && r->wildcard && r->active && r->event == 0;
    request copy;
    if (late) {
        copy = *r;
    }
    request_remove(REQUESTS, HANDLE(handle));
    requests_unlock();
    const call_state s = {.thread = agent_thread()};
    if (late && s.thread) { /* nobody will tell from whom it was */
        write_late_post(&s, &copy);
    }
}

void request_cancelled(MPI_Request handle)
{
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    if (r) {
        request_is_special(r);
        r->cancelled = true;
    }
    requests_unlock();
}

/* ---- sizes ---- */

OFTEN_RUN uint64_t volume(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL) {
        return 0;
    }
    PMPI_Type_size(type, &size);
    return size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

/* Of counts that are `int`, or MPI_Count where `large`. */
static uint64_t volumes_of(const void *counts, bool large, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    communicator *c = communicator_of(comm);
    uint64_t sum = 0;
    int64_t elements = 0;
    for (int i = 0; c && counts && i < c->size; i++) {
        int64_t count = large ? (int64_t)((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
        if (types) {
            sum += volume(count, types[i]);
        } else {
            elements += count;
        }
    }
    return types ? sum : volume(elements, type);
}

uint64_t volumes(const int *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    return volumes_of(counts, false, type, types, comm);
}

uint64_t large_volumes(const MPI_Count *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    return volumes_of(counts, true, type, types, comm);
}
