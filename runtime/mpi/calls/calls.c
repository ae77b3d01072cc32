#include "calls/calls.h"

#include <unistd.h>

#include "base/checksum.h"
#include "calls/scratch.h"
#include "calls/writing.h"
#include "handles/channels.h"
#include "handles/communicators.h"
#include "handles/lanes.h"
#include "handles/library.h"
#include "handles/world.h"
#include "record/kinds.h"

/* ---- entering and leaving ---- */

/* The thread's first call in a recording. */
COLD static bool begin_thread(native_thread *t, uint64_t generation)
{
    if (!mpi_has_begun() || !recorder()->is_on()) {
        return false;
    }
    uint32_t kind = recorder()->path_of_self ? THREAD_PYTHON : THREAD_NATIVE;
    agent.forget_totals(t);
    t->unwritten_ns = t->unwritten_cpu_ns = 0;
    t->history = (call_history){NULL, NULL};
    t->index = recorder()->thread(t->tid, kind | (t->tid == getpid() ? THREAD_MAIN : 0u));
    t->generation = generation;
    lanes_forget();
    return true;
}

/* From where a call comes. NULL where paths are told by the recorder. */
static inline call_site *find_site(native_thread *t, uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    call_site *site = t->history.expected;
    if (UNLIKELY(site == NULL || !call_site_is(site, pc, sp))) {
        if (recorder()->path_of_self) {
            return NULL;
        }
        site = agent.site_of(t->memory, pc, sp, fp);
    }
    call_history_goes_on(&t->history, site);
    return site;
}

OFTEN_RUN bool enter_call(call_state *s, const void *return_address, const void *frame)
{
    native_thread *t = own_thread;
    if (UNLIKELY(t == NULL)) {
        t = agent_thread();
    }
    uint64_t generation = generation_now();
    if (UNLIKELY(t == NULL || t->depth || mpi_is_over || (t->generation != generation && !begin_thread(t, generation)))) {
        return false;
    }
    /* Field by field: compilers clear a structure of this size by an instruction that takes longer than all of this. */
    s->thread = t;
    s->call = (call_arguments){.peer = -1};
    s->exit_ns = s->cpu_inside_ns = 0;
    s->on = NULL;
    s->wildcard = s->receives = false;
    s->source = s->tag = s->handles = 0;
    s->identity = s->second_event = 0;
    t->depth = 1;
    const clock_moment now = read_clocks(t);
    s->enter_ns = now.wall_ns;
    s->cpu_ns = now.cpu_ns;
    s->site = find_site(t, (uintptr_t)return_address, (uintptr_t)frame + 2 * sizeof(uintptr_t), *(const uintptr_t *)frame);
    s->path = s->site ? s->site->path : recorder()->path_of_self();
    if (rate_level() && UNLIKELY(now.wall_ns >= __atomic_load_n(&agent.rate->look_ns, __ATOMIC_RELAXED))) {
        agent.rate_look(now.wall_ns);
    }
    __atomic_store_n(&t->path, s->path, __ATOMIC_RELAXED);
    return true;
}

/* The call is known. */
OFTEN_RUN void show(call_state *s)
{
    show_call(s->thread, s->call.operation, s->call.group, s->call.seq, s->call.peer, s->enter_ns);
}

/* The library has returned. */
OFTEN_RUN void returned(call_state *s)
{
    const clock_moment now = read_clocks(s->thread);
    s->exit_ns = now.wall_ns;
    s->cpu_inside_ns = now.cpu_ns > s->cpu_ns ? now.cpu_ns - s->cpu_ns : 0;
}

void leave(call_state *s)
{
    leave_call(s->thread);
}

void begin_plain(call_state *s, uint32_t operation, uint32_t group, int64_t peer)
{
    s->call.operation = operation;
    s->call.group = group;
    s->call.peer = peer;
    s->call.flags = EVENT_BLOCKING;
    show(s);
}

void leave_plain(call_state *s)
{
    returned(s);
    s->call.group = 0; /* meets nobody */
    write_event(s, &s->call);
    leave(s);
}

void leave_counted(call_state *s)
{
    returned(s);
    count_call(s, &s->call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    leave(s);
}

void flush_record(void)
{
    recorder()->flush();
}

/* ---- collectives ---- */

OFTEN_RUN void begin_on(call_state *s, uint32_t operation, communicator *on, int root, uint64_t nbytes)
{
    s->on = on;
    s->call.operation = operation;
    s->call.nbytes = nbytes;
    s->call.flags = EVENT_BLOCKING;
    if (on) {
        s->call.group = recorded_group(on);
        s->call.seq = __atomic_fetch_add(&on->collectives, 1, __ATOMIC_RELAXED);
        s->call.peer = root == MPI_ROOT ? on->member_ranks[on->my_place] : world_rank(on, root);
    }
    show(s);
}

OFTEN_RUN void begin_collective(call_state *s, uint32_t operation, MPI_Comm comm, int root, uint64_t nbytes)
{
    begin_on(s, operation, communicator_of(comm), root, nbytes);
}

OFTEN_RUN void leave_collective(call_state *s)
{
    returned(s);
    write_event(s, &s->call);
    leave(s);
}

void begin_creation(call_state *s, uint32_t operation, MPI_Comm comm)
{
    begin_collective(s, operation, comm, -1, 0);
    s->identity = next_child(s->on);
}

void leave_creation(call_state *s, MPI_Comm made)
{
    leave_collective(s);
    s->thread->depth = 1;
    communicator_made(made, s->identity);
    s->thread->depth = 0;
}

void leave_creation_apart(call_state *s, MPI_Comm made, int tag)
{
    returned(s);
    if (made != MPI_COMM_NULL) {
        /* Equal groups that are made again with the same tag get equal names; uses of a name are told apart in order. */
        communicator_made(made, hash_word(HASH_SEED, (uint64_t)tag));
        s->on = communicator_of(made);
        s->call.group = recorded_group(s->on);
        s->call.seq = s->on ? s->on->collectives++ : 0;
    }
    write_event(s, &s->call);
    leave(s);
}

void leave_handle(call_state *s, uint64_t handle)
{
    leave_collective(s);
    handle_made(handle, s->on, s->identity);
}

/* ---- messages ---- */

OFTEN_RUN void number_message(call_state *s, bool sends)
{
    if (s->call.group && !s->wildcard) {
        s->call.seq = next_message_noted(s->on, s->call.group, s->source, s->tag, sends);
    }
}

OFTEN_RUN void begin_message(call_state *s, uint32_t operation, MPI_Comm comm, int peer, int tag, uint64_t nbytes, bool sends)
{
    s->on = communicator_of(comm);
    s->receives = !sends;
    s->source = peer;
    s->tag = tag;
    s->call.operation = operation;
    s->call.nbytes = nbytes;
    s->call.flags = EVENT_BLOCKING;
    s->call.tag = tag;
    if (peer == MPI_PROC_NULL) { /* nobody */
        s->call.tag = 0;
        show(s);
        return;
    }
    s->wildcard = !sends && (peer == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
    s->call.group = recorded_group(s->on);
    s->call.peer = world_rank(s->on, peer);
    if (s->wildcard) {
        s->call.flags |= EVENT_ANY_SOURCE;
    }
    number_message(s, sends);
    show(s);
}

/* What a status tells of a receive that could be from anybody. */
void resolve(call_arguments *call, const communicator *on, const MPI_Status *status)
{
    if (status) {
        if (status->MPI_SOURCE == MPI_PROC_NULL) {
            call->group = 0;
            return;
        }
        call->peer = world_rank(on, status->MPI_SOURCE);
        call->tag = status->MPI_TAG;
    }
}

/* A receive from anybody is there: from now on it has a number in its channel like any other. */
void settle(call_arguments *call, const communicator *on, const MPI_Status *status)
{
    if (status && ((call->tag >= 0 && status->MPI_TAG != call->tag) ||
                   (call->peer >= 0 && world_rank(on, status->MPI_SOURCE) != call->peer))) {
        status = NULL; /* no message that was asked for: MPICH does not tell whose an MPI_Isendrecv has received */
    }
    resolve(call, on, status);
    if (status && call->group && call->peer >= 0) {
        call->seq = next_message(call->group, call->peer, call->tag, false);
        call->flags |= EVENT_NUMBERED;
    }
}

void write_probe(const call_state *probe, uint64_t event)
{
    if (event) {
        write_completions(probe, &event, 1);
    } else {
        write_event(probe, &probe->call);
    }
}

/* A probe is a wait for the message that the next fitting receive takes. */
void after_receive(const call_state *s, uint64_t event)
{
    if (scratch && scratch->probed) {
        const call_state *probe = &scratch->probe;
        bool fits = event && probe->on == s->on && (s->source == MPI_ANY_SOURCE || s->source == probe->source) &&
                    (s->tag == MPI_ANY_TAG || s->tag == probe->tag);
        scratch->probed = false;
        write_probe(probe, fits ? event : 0);
        communicator_released(probe->on);
    }
}

OFTEN_RUN void leave_send(call_state *s)
{
    returned(s);
    write_event(s, &s->call);
    leave(s);
}

OFTEN_RUN void leave_receive(call_state *s, const MPI_Status *status)
{
    returned(s);
    if (s->wildcard) {
        settle(&s->call, s->on, status);
    }
    after_receive(s, write_event(s, &s->call));
    leave(s);
}

OFTEN_RUN request *remember(const call_state *s, uint64_t handle, uint64_t event)
{
    int32_t tag = s->receives && s->call.group && !s->wildcard ? s->tag : NO_RECEIVE;
    request *r = request_posted(handle, event, s->call.group, s->call.peer, s->call.seq, tag);
    if (r && s->wildcard) {
        request_is_special(r);
        r->wildcard = true;
        r->call = s->call;
        r->times = times_of(s);
        r->on = communicator_held(s->on);
    }
    return r;
}

OFTEN_RUN void leave_post(call_state *s, int result, MPI_Request handle)
{
    returned(s);
    uint64_t event = 0;
    bool late = s->wildcard && result == MPI_SUCCESS; /* recorded when it is known from whom it is */
    s->call.flags = (s->call.flags & ~(uint32_t)EVENT_BLOCKING) | EVENT_POST;
    if (late) {
        count_call(s, &s->call, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    } else {
        event = write_event(s, &s->call);
    }
    if (result == MPI_SUCCESS && handle != MPI_REQUEST_NULL) {
        requests_lock();
        remember(s, HANDLE(handle), event);
        requests_unlock();
    }
    if (s->receives) {
        after_receive(s, event);
    }
    leave(s);
}

void leave_creation_post(call_state *s, int result, MPI_Request handle, MPI_Comm *made)
{
    leave_post(s, result, handle);
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    if (r) {
        request_is_special(r);
        r->made = made;
        r->identity = s->identity;
    }
    requests_unlock();
}
