/* What happens around every recorded call of MPI. */
#include "mpi_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checksum.h"
#include "communicators.h"
#include "record_kinds.h"
#include "requests.h"

enum { INIT = 17, FINALIZE = 18, COMM_CREATE = 19, SENDRECV = 22, PROBE = 23, START = 26 };

/* Handles and statuses of the wait that a thread is in, and a probe that no receive has followed yet. */
typedef struct {
    MPI_Request *handles;
    MPI_Status *statuses;
    uint64_t *events;
    int capacity;
    bool probed;
    call_state probe;
} scratch_space;

static const agent_api *agent;
static __thread scratch_space *scratch __attribute__((tls_model("initial-exec")));
static bool over; /* after MPI_Finalize nothing may be asked */

static const recorder_api *recorder(void)
{
    return agent->recorder;
}

/* ---- entering and leaving ---- */

bool enter_call(call_state *s, const void *return_address, const void *frame)
{
    native_thread *t = agent->thread_self();
    if (t == NULL || t->depth || !recorder()->is_on() || over) {
        return false;
    }
    memset(s, 0, sizeof *s);
    s->thread = t;
    s->call.peer = -1;
    t->depth = 1;
    agent->thread_clocks(t, &s->enter_ns, &s->cpu_ns);
    s->path = agent->path_of_call(t, (uintptr_t)return_address, (uintptr_t)frame + 2 * sizeof(uintptr_t),
                                  *(const uintptr_t *)frame);
    uint64_t generation = recorder()->generation();
    if (t->generation != generation) {
        uint32_t kind = recorder()->path_of_self ? THREAD_PYTHON : THREAD_NATIVE;
        t->index = recorder()->thread(t->tid, kind | (t->tid == getpid() ? THREAD_MAIN : 0u));
        t->generation = generation;
    }
    __atomic_store_n(&t->path, s->path, __ATOMIC_RELAXED);
    return true;
}

/* The call is known: from now on a flush shows that the thread is in it. */
static void show(call_state *s)
{
    native_thread *t = s->thread;
    t->call.operation = s->call.operation;
    t->call.group = s->call.group;
    t->call.seq = s->call.seq;
    t->call.peer = s->call.peer;
    __atomic_store_n(&t->call.enter_ns, s->enter_ns, __ATOMIC_RELEASE);
}

/* The library has returned. */
static void returned(call_state *s)
{
    uint64_t cpu;
    agent->thread_clocks(s->thread, &s->exit_ns, &cpu);
    s->cpu_inside_ns = cpu > s->cpu_ns ? cpu - s->cpu_ns : 0;
}

static void leave(call_state *s)
{
    __atomic_store_n(&s->thread->call.enter_ns, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&s->thread->path, 0, __ATOMIC_RELAXED);
    s->thread->depth = 0;
}

static uint64_t write_event(const call_state *s, const call_arguments *call)
{
    return recorder()->event_at(call, s->thread->index, s->path, s->enter_ns, s->exit_ns, s->cpu_ns, s->cpu_inside_ns);
}

/* A post at a moment of a call that counts itself: `step` ns after its beginning. */
static uint64_t write_post_inside(const call_state *s, call_arguments call, uint64_t step)
{
    call.flags = (call.flags | EVENT_POST | EVENT_UNCOUNTED) & ~(uint32_t)EVENT_BLOCKING;
    uint64_t at = s->enter_ns + step;
    return recorder()->event_at(&call, s->thread->index, s->path, at, at, s->cpu_ns, 0);
}

static void write_completions(const call_state *s, const uint64_t *events, size_t count)
{
    recorder()->completions_at(&s->call, events, count, s->thread->index, s->path, s->enter_ns, s->exit_ns, s->cpu_ns,
                               s->cpu_inside_ns);
}

static scratch_space *own_scratch(int count)
{
    if (scratch == NULL) {
        scratch = calloc(1, sizeof *scratch);
    }
    if (scratch && scratch->capacity < count) {
        int capacity = scratch->capacity ? scratch->capacity : 16;
        while (capacity < count) {
            capacity *= 2;
        }
        free(scratch->handles);
        free(scratch->statuses);
        free(scratch->events);
        scratch->handles = calloc((size_t)capacity, sizeof *scratch->handles);
        scratch->statuses = calloc((size_t)capacity, sizeof *scratch->statuses);
        scratch->events = calloc((size_t)capacity, sizeof *scratch->events);
        scratch->capacity = scratch->handles && scratch->statuses && scratch->events ? capacity : 0;
    }
    return scratch && scratch->capacity >= count ? scratch : NULL;
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
    recorder()->count(s->path, s->call.operation, s->call.group, s->call.nbytes, s->exit_ns - s->enter_ns,
                      s->cpu_inside_ns);
    leave(s);
}

void flush_record(void)
{
    recorder()->flush();
}

/* ---- begin and end of MPI ---- */

static void meta_number(const char *key, int value)
{
    char text[16];
    int size = snprintf(text, sizeof text, "%d", value);
    recorder()->meta(key, strlen(key), text, (size_t)size);
}

static void meta(const char *key, const char *value)
{
    recorder()->meta(key, strlen(key), value, strlen(value));
}

static void say_who_we_are(void)
{
    int rank, size, length = 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    meta("role", "rank");
    meta_number("rank", rank);
    meta_number("world_size", size);
    meta("rank_source", "MPI_Init");
    if (PMPI_Get_library_version(version, &length) == MPI_SUCCESS) {
        version[strcspn(version, "\n,")] = 0;
        meta("mpi", version);
    }
    recorder()->flush();
}

void leave_init(call_state *s)
{
    int level = MPI_THREAD_MULTIPLE;
    returned(s);
    PMPI_Query_thread(&level);
    requests_shared(level == MPI_THREAD_MULTIPLE);
    s->call.operation = INIT;
    s->call.flags = EVENT_BLOCKING;
    say_who_we_are();
    s->on = communicator_of(MPI_COMM_WORLD);
    if (s->on) {
        s->call.group = recorded_group(s->on);
        s->call.seq = s->on->collectives++;
    }
    write_event(s, &s->call);
    leave(s);
}

void begin_finalize(call_state *s)
{
    begin_collective(s, FINALIZE, MPI_COMM_WORLD, -1, 0);
    over = true;
}

/* ---- collectives ---- */

static void begin_on(call_state *s, uint32_t operation, communicator *on, int root, uint64_t nbytes)
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

void begin_collective(call_state *s, uint32_t operation, MPI_Comm comm, int root, uint64_t nbytes)
{
    begin_on(s, operation, communicator_of(comm), root, nbytes);
}

void leave_collective(call_state *s)
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

void begin_on_handle(call_state *s, uint32_t operation, uint64_t handle, int target, uint64_t nbytes, bool collective)
{
    communicator *on = handle_communicator(handle);
    if (collective) {
        begin_on(s, operation, on, -1, nbytes);
    } else {
        begin_plain(s, operation, recorded_group(on), world_rank(on, target));
        s->call.nbytes = nbytes;
    }
}

/* ---- messages ---- */

static void number_message(call_state *s, bool sends)
{
    if (s->call.group && !s->wildcard) {
        s->call.seq = next_message(s->call.group, s->call.peer, s->call.tag, sends);
    }
}

void begin_message(call_state *s, uint32_t operation, MPI_Comm comm, int peer, int tag, uint64_t nbytes, bool sends)
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
static void resolve(call_arguments *call, const communicator *on, const MPI_Status *status)
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

static void write_probe(const call_state *probe, uint64_t event)
{
    if (event) {
        write_completions(probe, &event, 1);
    } else {
        write_event(probe, &probe->call);
    }
}

/* A probe is a wait for the message that the next fitting receive takes. */
static void after_receive(const call_state *s, uint64_t event)
{
    if (scratch && scratch->probed) {
        const call_state *probe = &scratch->probe;
        bool fits = event && probe->on == s->on && (s->source == MPI_ANY_SOURCE || s->source == probe->source) &&
                    (s->tag == MPI_ANY_TAG || s->tag == probe->tag);
        scratch->probed = false;
        write_probe(probe, fits ? event : 0);
    }
}

void leave_send(call_state *s)
{
    returned(s);
    write_event(s, &s->call);
    leave(s);
}

void leave_receive(call_state *s, const MPI_Status *status)
{
    returned(s);
    if (s->wildcard) {
        resolve(&s->call, s->on, status);
    }
    after_receive(s, write_event(s, &s->call));
    leave(s);
}

static request *remember(const call_state *s, uint64_t handle)
{
    request *r = request_add(REQUESTS, handle);
    if (r) {
        r->call = s->call;
        r->thread = s->thread->index;
        r->path = s->path;
        r->enter_ns = s->enter_ns;
        r->exit_ns = s->exit_ns;
        r->cpu_enter_ns = s->cpu_ns;
        r->cpu_ns = s->cpu_inside_ns;
        r->on = s->on;
        r->wildcard = s->wildcard;
        r->source = s->source;
        r->tag = s->tag;
        r->active = true;
    }
    return r;
}

void leave_post(call_state *s, int result, MPI_Request handle)
{
    returned(s);
    uint64_t event = 0;
    bool late = s->wildcard && result == MPI_SUCCESS; /* recorded when it is known from whom it is */
    s->call.flags = (s->call.flags & ~(uint32_t)EVENT_BLOCKING) | EVENT_POST;
    if (!late) {
        event = write_event(s, &s->call);
    }
    if (result == MPI_SUCCESS && handle != MPI_REQUEST_NULL) {
        requests_lock();
        request *r = remember(s, HANDLE(handle));
        if (r) {
            r->event = event;
        }
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
        r->made = made;
        r->identity = s->identity;
    }
    requests_unlock();
}

/* ---- persistent requests ---- */

void leave_prepared(call_state *s, MPI_Request handle, MPI_Comm comm, int peer, int tag, uint64_t nbytes,
                    enum prepared_kind kind)
{
    s->on = communicator_of(comm);
    s->source = peer;
    s->tag = tag;
    s->wildcard = kind == PREPARED_RECEIVE && (peer == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
    requests_lock();
    request *r = remember(s, HANDLE(handle));
    if (r) {
        r->persistent = true;
        r->active = false;
        r->sends = kind == PREPARED_SEND;
        r->collective = kind == PREPARED_COLLECTIVE;
        r->call.nbytes = nbytes;
        r->call.peer = world_rank(s->on, peer);
        r->call.tag = kind == PREPARED_COLLECTIVE ? 0 : tag;
        r->call.group = peer == MPI_PROC_NULL && kind != PREPARED_COLLECTIVE ? 0 : recorded_group(s->on);
        r->call.flags = EVENT_POST | (s->wildcard ? EVENT_ANY_SOURCE : 0u);
    }
    requests_unlock();
    leave_counted(s);
}

static void start_one(const call_state *s, MPI_Request handle, uint64_t step)
{
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    bool known = r && r->persistent;
    request copy = {0};
    if (known) {
        r->active = true;
        r->thread = s->thread->index;
        r->path = s->path;
        r->enter_ns = r->exit_ns = s->enter_ns + step;
        r->cpu_enter_ns = s->cpu_ns;
        r->cpu_ns = 0;
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
    uint64_t event = write_post_inside(s, copy.call, step);
    requests_lock();
    r = request_find(REQUESTS, HANDLE(handle));
    if (r) {
        r->event = event;
        r->call.seq = copy.call.seq;
    }
    requests_unlock();
}

void leave_start(call_state *s, int count, const MPI_Request *handles)
{
    returned(s);
    for (int i = 0; i < count; i++) {
        start_one(s, handles[i], (uint64_t)i);
    }
    recorder()->count(s->path, START, 0, 0, s->exit_ns - s->enter_ns, s->cpu_inside_ns);
    leave(s);
}

/* ---- sendrecv: both posts, then a wait for both ---- */

void begin_sendrecv(call_state *s, MPI_Comm comm, int dest, int send_tag, int source, int tag, uint64_t nbytes)
{
    call_state send = *s;
    begin_message(&send, OPERATION_SEND, comm, dest, send_tag, nbytes, true);
    s->second_event = write_post_inside(&send, send.call, 0);
    begin_message(s, OPERATION_RECV, comm, source, tag, nbytes, false);
}

void leave_sendrecv(call_state *s, const MPI_Status *status)
{
    returned(s);
    if (s->wildcard) {
        resolve(&s->call, s->on, status);
    }
    uint64_t both[2] = {s->second_event, write_post_inside(s, s->call, 1)};
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
    resolve(&s->call, s->on, status);
    number_message(s, false);
    uint64_t event = write_event(s, &s->call);
    if (status && message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC) {
        requests_lock();
        request *r = request_add(MESSAGES, HANDLE(message));
        if (r) {
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
        s->call.operation = 25; /* test */
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
    recorder()->count(s->path, s->call.operation, s->call.group, s->call.nbytes, s->exit_ns - s->enter_ns,
                      s->cpu_inside_ns);
    if (result == MPI_SUCCESS && handle != MPI_REQUEST_NULL) {
        requests_lock();
        request *r = remember(s, HANDLE(handle));
        if (r) {
            r->event = s->second_event;
        }
        requests_unlock();
    }
    leave(s);
}

/* ---- completion ---- */

void begin_wait(call_state *s, uint32_t operation, int count, const MPI_Request *handles)
{
    scratch_space *own = own_scratch(count > 0 ? count : 1);
    s->handles = own && count > 0 ? count : 0;
    if (s->handles) {
        memcpy(own->handles, handles, (size_t)count * sizeof *handles);
        requests_lock();
        for (int i = 0; i < count; i++) {
            request *r = handles[i] == MPI_REQUEST_NULL ? NULL : request_find(REQUESTS, HANDLE(handles[i]));
            if (r) {
                s->call.group = r->call.group;
                s->call.seq = r->call.seq;
                s->call.peer = r->call.peer;
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
    if (statuses != MPI_STATUSES_IGNORE || s->handles < count || count == 0) {
        return statuses;
    }
    bool needed = false;
    requests_lock();
    for (int i = 0; i < count && !needed; i++) {
        request *r = scratch->handles[i] == MPI_REQUEST_NULL ? NULL : request_find(REQUESTS, HANDLE(scratch->handles[i]));
        needed = r && (r->wildcard || r->cancelled);
    }
    requests_unlock();
    return needed ? scratch->statuses : statuses;
}

/* Event of the post that a request stands for, recorded now if it waited for its sender to be known. */
static uint64_t completed(MPI_Request handle, const MPI_Status *status)
{
    requests_lock();
    request *found = handle == MPI_REQUEST_NULL ? NULL : request_find(REQUESTS, HANDLE(handle));
    request r = {0};
    bool active = found && found->active;
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
        resolve(&r.call, r.on, status);
        r.call.flags |= r.persistent ? EVENT_UNCOUNTED : 0u;
        r.event = recorder()->event_at(&r.call, r.thread, r.path, r.enter_ns, r.exit_ns, r.cpu_enter_ns, r.cpu_ns);
    }
    if (r.made) {
        communicator_made(*r.made, r.identity);
    }
    return r.event;
}

void leave_wait(call_state *s, int count, const int *indices, const MPI_Status *statuses)
{
    size_t events = 0;
    returned(s);
    if (statuses == MPI_STATUSES_IGNORE) {
        statuses = NULL;
    }
    for (int i = 0; i < count; i++) {
        int at = indices ? indices[i] : i;
        if (at >= 0 && at < s->handles) {
            uint64_t event = completed(scratch->handles[at], statuses ? &statuses[i] : NULL);
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
    bool late = r && r->wildcard && r->active && r->event == 0;
    request copy = r ? *r : (request){0};
    request_remove(REQUESTS, HANDLE(handle));
    requests_unlock();
    if (late) { /* nobody will tell from whom it was */
        recorder()->event_at(&copy.call, copy.thread, copy.path, copy.enter_ns, copy.exit_ns, copy.cpu_enter_ns,
                             copy.cpu_ns);
    }
}

void request_cancelled(MPI_Request handle)
{
    requests_lock();
    request *r = request_find(REQUESTS, HANDLE(handle));
    if (r) {
        r->cancelled = true;
    }
    requests_unlock();
}

/* ---- sizes ---- */

uint64_t volume(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL) {
        return 0;
    }
    PMPI_Type_size(type, &size);
    return size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

uint64_t volumes(const int *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    communicator *c = communicator_of(comm);
    uint64_t sum = 0;
    int64_t elements = 0;
    for (int i = 0; c && counts && i < c->size; i++) {
        if (types) {
            sum += volume(counts[i], types[i]);
        } else {
            elements += counts[i];
        }
    }
    return types ? sum : volume(elements, type);
}

uint64_t large_volumes(const MPI_Count *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm)
{
    communicator *c = communicator_of(comm);
    uint64_t sum = 0;
    int64_t elements = 0;
    for (int i = 0; c && counts && i < c->size; i++) {
        if (types) {
            sum += volume(counts[i], types[i]);
        } else {
            elements += counts[i];
        }
    }
    return types ? sum : volume(elements, type);
}

/* ---- the entry point ---- */

__attribute__((visibility("default"))) const agent_wrapper *scalana_mpi_wrappers(const agent_api *api);
const agent_wrapper *scalana_mpi_wrappers(const agent_api *api)
{
    if (api->version != AGENT_VERSION || api->recorder->version != RECORDER_API_VERSION) {
        return NULL;
    }
    agent = api;
    communicators_use(api);
    return generated_wrappers;
}
