#include "calls/counting.h"

#include "calls/scratch.h"
#include "calls/writing.h"
#include "handles/lanes.h"
#include "handles/requests.h"
#include "record/keys.h"

/* What calls of all kinds have in common is there once: a program may have filled the caches since the last one. */

/* The calling thread is about to call from a known place. Reads the clocks, and changes nothing else. */
OFTEN_RUN APART static bool known_caller(counted_call *c, const void *return_address, const void *frame)
{
    native_thread *t = own_thread;
    if (UNLIKELY(t == NULL || t->depth || t->generation != generation_now())) {
        return false;
    }
    call_site *site = t->history.expected;
    if (UNLIKELY(site == NULL ||
                 !call_site_is(site, (uintptr_t)return_address, (uintptr_t)frame + 2 * sizeof(uintptr_t)))) {
        return false;
    }
    clock_moment now;
    if (UNLIKELY(!thread_clocks_reckon(&t->clocks, agent.clock_rules, &now) ||
                 now.wall_ns >= __atomic_load_n(&agent.rate->look_ns, __ATOMIC_RELAXED))) {
        return false;
    }
    c->thread = t;
    c->site = site;
    c->enter_ns = now.wall_ns;
    c->cpu_ns = now.cpu_ns;
    return true;
}

/* The thread is in the call from now on. */
ALWAYS_INLINE void begin_counted(counted_call *c, uint32_t operation, uint32_t group, uint64_t seq, int64_t peer,
                                 uint64_t nbytes)
{
    native_thread *t = c->thread;
    c->nbytes = nbytes;
    call_history_goes_on(&t->history, c->site);
    t->depth = 1;
    __atomic_store_n(&t->path, c->site->path, __ATOMIC_RELAXED);
    show_call(t, operation, group, seq, peer, c->enter_ns);
}

OFTEN_RUN bool counts_collective(counted_call *c, const void *return_address, const void *frame, uint32_t operation,
                                 MPI_Comm comm, int root, uint64_t nbytes)
{
    communicator *on = recent_communicator(comm);
    if (UNLIKELY(on == NULL || on->group == 0 || on->generation != generation_now() || root == MPI_ROOT) ||
        is_kept(key_of_collective(on->name_hash, on->collectives),
                level_of_collective(on->collectives, rate_level())) ||
        !known_caller(c, return_address, frame)) {
        return false;
    }
    begin_counted(c, operation, on->group, on->collectives++, world_rank(on, root), nbytes);
    return true;
}

ALWAYS_INLINE bool next_is_written(const lane *l)
{
    return is_kept(key_of_message(l->hash, l->count), rate_level());
}

/* A probe that no receive has followed yet waits for what the next one takes. */
ALWAYS_INLINE bool probed(void)
{
    return scratch && scratch->probed;
}

OFTEN_RUN bool counts_message(counted_call *c, const void *return_address, const void *frame, uint32_t operation,
                              MPI_Comm comm, int peer, int tag, uint64_t nbytes, bool sends)
{
    lane *l = lane_of(HANDLE(comm), peer, tag, sends);
    if (l == NULL || next_is_written(l) || (!sends && probed()) || !known_caller(c, return_address, frame)) {
        return false;
    }
    request_expected();
    c->site->lane = l;
    begin_counted(c, operation, l->group, l->count++, l->world_peer, nbytes);
    return true;
}

OFTEN_RUN bool counts_sendrecv(counted_call *c, const void *return_address, const void *frame, MPI_Comm comm, int dest,
                               int send_tag, int source, int tag, uint64_t nbytes)
{
    lane *there = lane_of(HANDLE(comm), dest, send_tag, true), *here = lane_of(HANDLE(comm), source, tag, false);
    if (there == NULL || here == NULL || next_is_written(there) || next_is_written(here) || probed() ||
        !known_caller(c, return_address, frame)) {
        return false;
    }
    there->count++;
    c->site->lane = here;
    begin_counted(c, SENDRECV, here->group, here->count++, here->world_peer, nbytes);
    return true;
}

OFTEN_RUN bool counts_wait(counted_call *c, const void *return_address, const void *frame, uint32_t operation, int count,
                           const MPI_Request *requests)
{
    const request *first = NULL;
    if (!known_caller(c, return_address, frame)) {
        return false;
    }
    /* What is taken here and then not only counted has no event, as the long way does not have to be told. */
    for (int i = 0; i < count; i++) {
        if (requests[i] != MPI_REQUEST_NULL) {
            const request *r = request_take_unwritten(HANDLE(requests[i]));
            if (r == NULL) {
                return false;
            }
            first = first ? first : r;
        }
    }
    if (first == NULL) {
        return false;
    }
    begin_counted(c, operation, first->group, first->seq, first->peer, 0);
    return true;
}

OFTEN_RUN bool counts_test(counted_call *c, const void *return_address, const void *frame, uint32_t operation,
                           MPI_Request handle)
{
    const request *r = handle == MPI_REQUEST_NULL ? NULL : request_find_unwritten(HANDLE(handle));
    if (r == NULL || !known_caller(c, return_address, frame)) {
        return false;
    }
    c->handle = HANDLE(handle);
    begin_counted(c, operation, r->group, r->seq, r->peer, 0);
    return true;
}

OFTEN_RUN APART void leave_only_counted(const counted_call *c)
{
    native_thread *t = c->thread;
    const clock_moment now = read_clocks(t);
    uint64_t wall_ns = now.wall_ns - c->enter_ns, cpu_ns = now.cpu_ns > c->cpu_ns ? now.cpu_ns - c->cpu_ns : 0;
    add_to_sums(t, c->site, c->site->path, t->call.operation, t->call.group, c->nbytes, wall_ns, cpu_ns);
    t->unwritten_ns += wall_ns;
    t->unwritten_cpu_ns += cpu_ns;
    leave_call(t);
}

OFTEN_RUN void leave_counted_post(const counted_call *c, int result, MPI_Request handle, int receive_tag)
{
    if (result == MPI_SUCCESS && handle != MPI_REQUEST_NULL) {
        const current_call *call = &c->thread->call;
        request_posted(HANDLE(handle), NOT_WRITTEN, call->group, call->peer, call->seq, receive_tag);
    }
    leave_only_counted(c);
}

OFTEN_RUN void leave_counted_test(const counted_call *c, int done)
{
    if (done) {
        request_take_unwritten(c->handle);
    }
    leave_only_counted(c);
}
