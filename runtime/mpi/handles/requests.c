#include "handles/requests.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "handles/library.h"

#define BUCKET_BITS 12
#define BUCKETS (1u << BUCKET_BITS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request *buckets[2][BUCKETS];
OFTEN static request *unused;
#define MOST_ALLOCATED 100000u
static unsigned allocated;
OFTEN static uint64_t special_requests;

OFTEN static bool is_shared_table = true;

void requests_shared(bool shared)
{
    is_shared_table = shared;
}

bool requests_are_shared(void)
{
    return is_shared_table;
}

void requests_lock(void)
{
    if (is_shared_table) {
        pthread_mutex_lock(&lock);
    }
}

void requests_unlock(void)
{
    if (is_shared_table) {
        pthread_mutex_unlock(&lock);
    }
}

/* Handles that were made one after the other lie beside each other, where that is known of them: their buckets, too. */
ALWAYS_INLINE unsigned bucket_of(uint64_t handle)
{
#ifdef MPICH_VERSION /* numbers */
    return (unsigned)handle & (BUCKETS - 1);
#elif defined OPEN_MPI /* addresses of what takes some hundred bytes */
    return (unsigned)(handle >> 7) & (BUCKETS - 1);
#else
    return (unsigned)(handle * UINT64_C(0x9E3779B97F4A7C15) >> (64 - BUCKET_BITS));
#endif
}

ALWAYS_INLINE request **place_of(enum request_kind kind, uint64_t handle)
{
    request **at = &buckets[kind][bucket_of(handle)];
    while (*at && (*at)->handle != handle) {
        at = &(*at)->next;
    }
    return at;
}

request *request_find(enum request_kind kind, uint64_t handle)
{
    return *place_of(kind, handle);
}

#ifdef OPEN_MPI
extern const char ompi_request_empty[] __attribute__((weak));
#endif

/* Libraries give one and the same handle to all requests that are complete as soon as they are made. */
static bool is_shared(uint64_t handle)
{
#ifdef MPICH_VERSION
    return ((uint32_t)handle >> 30) == 1;
#elif defined OPEN_MPI
    return handle == (uint64_t)(uintptr_t)ompi_request_empty;
#else
    (void)handle;
    return false;
#endif
}

static void no_longer_special(request *r)
{
    if (r->special) {
        communicator_released(r->on);
        r->special = false;
        special_requests--;
    }
}

void request_ended(request *r)
{
    no_longer_special(r);
    r->handle = 0;
    r->next = unused;
    unused = r;
}

static void remove_at(request **at)
{
    request *r = *at;
    *at = r->next;
    request_ended(r);
}

request *request_taken(uint64_t handle)
{
    request **at = place_of(REQUESTS, handle), *r = *at;
    if (r == NULL || !r->active || (r->special && r->persistent)) {
        return NULL;
    }
    *at = r->next;
    r->handle = 0;
    return r;
}

/* Where one more goes of a handle that there is already: behind the others, which are completed first. `at` is where the
 * first of them is. That goes where there are very many: programs may never complete what is complete. */
APART static request **behind_last(request **at, uint64_t handle)
{
    static request *latest[4]; /* that were put behind others */
    request **known = &latest[handle * UINT64_C(0x9E3779B97F4A7C15) >> 62];
    request *last = *known && (*known)->handle == handle ? *known : *at;
    while (last->next && last->next->handle == handle) {
        last = last->next;
    }
    if (unused == NULL && allocated >= MOST_ALLOCATED && last != *at) {
        remove_at(at);
    }
    *known = last;
    return &last->next;
}

OFTEN_RUN void request_expected(void)
{
    __builtin_prefetch(unused, 1);
}

OFTEN_RUN request *request_add(enum request_kind kind, uint64_t handle)
{
    request **at = place_of(kind, handle);
    request *r = *at;
    if (UNLIKELY(r && is_shared(handle))) {
        at = behind_last(at, handle);
        r = NULL;
    }
    if (r == NULL) {
        r = unused;
        if (r) {
            unused = r->next;
        } else {
            r = aligned_alloc(_Alignof(request), sizeof *r);
            allocated++;
        }
        if (r == NULL) {
            return NULL;
        }
        r->next = *at;
        r->special = false;
        *at = r;
    }
    no_longer_special(r);
    r->handle = handle;
    r->event = 0;
    r->active = false;
    return r;
}

OFTEN_RUN request *request_posted(uint64_t handle, uint64_t event, uint32_t group, int64_t peer, uint64_t seq, int32_t tag)
{
    request *r = request_add(REQUESTS, handle);
    if (r) {
        r->event = event;
        r->active = true;
        r->group = group;
        r->peer = peer;
        r->seq = seq;
        r->tag = tag;
    }
    return r;
}

COLD void request_is_special(request *r)
{
    if (!r->special) {
        const size_t from = offsetof(request, call);
        memset((char *)r + from, 0, sizeof *r - from);
        r->special = true;
        special_requests++;
    }
}

bool requests_any_special(void)
{
    return special_requests > 0;
}

ALWAYS_INLINE bool is_plain(const request *r)
{
    return r && !r->special && r->active;
}

OFTEN_RUN uint64_t request_complete_plain(uint64_t handle)
{
    request **at = place_of(REQUESTS, handle);
    if (!is_plain(*at)) {
        return 0;
    }
    uint64_t event = (*at)->event;
    remove_at(at);
    return event;
}

OFTEN_RUN const request *request_take_unwritten(uint64_t handle)
{
    request **at = place_of(REQUESTS, handle), *r = *at;
    if (!is_plain(r) || r->event != NOT_WRITTEN) {
        return NULL;
    }
    remove_at(at);
    return r;
}

OFTEN_RUN const request *request_find_unwritten(uint64_t handle)
{
    const request *r = *place_of(REQUESTS, handle);
    return is_plain(r) && r->event == NOT_WRITTEN ? r : NULL;
}

COLD void requests_move_up(const request *withdrawn)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (request *r = buckets[REQUESTS][i]; r; r = r->next) {
            bool same = r->active && r->group == withdrawn->group && r->peer == withdrawn->peer && r->tag == withdrawn->tag;
            if (same && r->seq > withdrawn->seq) {
                r->seq--;
            }
        }
    }
}

void request_remove(enum request_kind kind, uint64_t handle)
{
    request **at = place_of(kind, handle);
    if (*at) {
        remove_at(at);
    }
}
