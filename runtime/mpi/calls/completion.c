#include "calls/completion.h"

#include <string.h>

#include "calls/calls.h"
#include "calls/scratch.h"
#include "calls/writing.h"
#include "handles/channels.h"
#include "handles/requests.h"
#include "record/kinds.h"

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

/* Both posts have one request. */
void leave_isendrecv(call_state *s, int result, MPI_Request handle)
{
    returned(s);
    s->call.flags = (s->call.flags & ~(uint32_t)EVENT_BLOCKING) | EVENT_POST;
    bool late = s->wildcard && result == MPI_SUCCESS; /* recorded when it is known from whom it is */
    uint64_t event = late ? 0 : write_post_inside(s, s->call, s->on, 1);
    if (result == MPI_SUCCESS && handle != MPI_REQUEST_NULL) {
        requests_lock();
        request *r = remember(s, HANDLE(handle), event);
        if (r) {
            request_is_special(r);
            r->second_event = s->second_event;
            r->times.enter_ns = r->times.exit_ns = s->enter_ns + 1;
            r->times.cpu_ns = 0;
        }
        requests_unlock();
    }
    after_receive(s, event);
    s->call.operation = SENDRECV;
    count_call(s, &s->call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
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
            communicator_released(own->probe.on);
        }
        own->probed = true;
        own->probe = *s;
        communicator_held(own->probe.on);
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
        }
        requests_unlock();
    }
    after_receive(s, event);
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
        bool takes = operation == OPERATION_WAIT && requests_are_shared();
        for (int i = 0; i < count; i++) {
            own->taken[i] = takes && handles[i] != MPI_REQUEST_NULL ? request_taken(HANDLE(handles[i])) : NULL;
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
        request *r = scratch->taken[i];
        if (r == NULL && scratch->handles[i] != MPI_REQUEST_NULL) {
            r = request_find(REQUESTS, HANDLE(scratch->handles[i]));
        }
        needed = r && r->special && (r->wildcard || r->cancelled);
    }
    requests_unlock();
    return needed ? scratch->statuses : statuses;
}

/* A receive was cancelled that was numbered in its channel. It is told from others by a completion of its own, at the
 * beginning of the call that completes it. */
COLD static void withdraw(call_state *s, const request *r)
{
    requests_lock();
    message_withdrawn(r->group, r->peer, r->tag);
    requests_move_up(r);
    requests_unlock();
    const call_arguments call = {
        .operation = OPERATION_WAIT,
        .group = r->group,
        .seq = r->seq,
        .peer = r->peer,
        .tag = r->tag,
        .flags = EVENT_COMPLETION | EVENT_WITHDRAWN | EVENT_UNCOUNTED,
        .completes = r->event & 1 ? 0 : r->event,
    };
    recorder()->event_at(&call, s->thread->index, s->path, s->enter_ns, s->enter_ns, s->cpu_ns, 0);
    s->enter_ns++;
    s->exit_ns = s->exit_ns > s->enter_ns ? s->exit_ns : s->enter_ns;
}

/* Completes a request of which more is to be done than of most; unlocks the table. */
COLD static size_t completed_special(call_state *s, int at, const MPI_Status *status, uint64_t events[2])
{
    const MPI_Request handle = scratch->handles[at];
    request *taken = scratch->taken[at];
    request *found = taken ? taken : request_find(REQUESTS, HANDLE(handle));
    request r;
    bool active = found && found->active && found->special;
    if (active) {
        r = *found;
        communicator_held(r.on);
        if (r.persistent) {
            found->active = false;
        } else if (taken) {
            request_ended(taken);
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
        if (r.tag != NO_RECEIVE) {
            withdraw(s, &r);
        }
        r.event = 0;
    } else if (r.wildcard && r.event == 0) {
        settle(&r.call, r.on, status);
        r.event = write_call(&r.call, r.on, &r.times);
    }
    communicator_released(r.on);
    if (r.made && !cancelled) {
        communicator_made(*r.made, r.identity);
    }
    size_t count = 0;
    if (r.event) {
        events[count++] = r.event;
    }
    if (r.second_event) {
        events[count++] = r.second_event;
    }
    return count;
}

/* Events of the posts that a request stands for, recorded now if they waited for their sender to be known. How many. */
static size_t completed(call_state *s, int at, const MPI_Status *status, uint64_t events[2])
{
    request *taken = scratch->taken[at];
    if (scratch->handles[at] == MPI_REQUEST_NULL) {
        return 0;
    }
    requests_lock();
    if (taken && !taken->special) {
        events[0] = taken->event;
        request_ended(taken);
        requests_unlock();
        return events[0] != 0;
    }
    events[0] = taken ? 0 : request_complete_plain(HANDLE(scratch->handles[at]));
    if (events[0] || !requests_any_special()) {
        requests_unlock();
        return events[0] != 0;
    }
    return completed_special(s, at, status, events);
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
            events += completed(s, at, statuses ? &statuses[i] : NULL, scratch->events + events);
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

/* Whether a request is complete because it was cancelled. */
COLD static bool was_cancelled(MPI_Request handle)
{
    int complete = 0, cancelled = 0;
    MPI_Status status;
    if (PMPI_Request_get_status(handle, &complete, &status) == MPI_SUCCESS && complete) {
        PMPI_Test_cancelled(&status, &cancelled);
    }
    return cancelled;
}

void request_freed(MPI_Request handle, const void *return_address, const void *frame)
{
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    bool late = r && r->special && r->wildcard && r->active && r->event == 0;
    bool cancelled = r && r->special && r->cancelled && r->active && r->tag != NO_RECEIVE;
    request copy;
    if (late || cancelled) {
        copy = *r;
    }
    if (late) {
        communicator_held(copy.on);
    }
    request_remove(REQUESTS, HANDLE(handle));
    requests_unlock();
    call_state s;
    if (cancelled && was_cancelled(handle) && enter_call(&s, return_address, frame)) {
        withdraw(&s, &copy);
        leave(&s);
    }
    if (late) { /* nobody will tell from whom it was */
        write_call(&copy.call, copy.on, &copy.times);
        communicator_released(copy.on);
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
