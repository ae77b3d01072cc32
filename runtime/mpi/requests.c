#include "calls_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.h"

#define BUCKETS 4096u /* power of two */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request *buckets[2][BUCKETS];
OFTEN static request *unused;
OFTEN static uint64_t special_requests;

typedef struct {
    uint64_t key[2];
    uint64_t count;
    bool used;
} channel;

OFTEN static channel *channels;
OFTEN static size_t channel_count, channel_capacity;

OFTEN static bool is_shared_table = true;

void requests_shared(bool shared)
{
    is_shared_table = shared;
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

ALWAYS_INLINE request **place_of(enum request_kind kind, uint64_t handle)
{
    request **at = &buckets[kind][hash_finish(handle) & (BUCKETS - 1)];
    while (*at && (*at)->handle != handle) {
        at = &(*at)->next;
    }
    return at;
}

request *request_find(enum request_kind kind, uint64_t handle)
{
    return *place_of(kind, handle);
}

/* MPICH and its kin give one and the same handle to all requests that are complete as soon as they are made. */
static bool is_shared(uint64_t handle)
{
#ifdef MPICH_VERSION
    return ((uint32_t)handle >> 30) == 1;
#else
    (void)handle;
    return false;
#endif
}

OFTEN_RUN request *request_add(enum request_kind kind, uint64_t handle)
{
    request **at = place_of(kind, handle);
    request *r = *at;
    if (r && is_shared(handle)) { /* one more behind those that are there */
        while (*at) {
            at = &(*at)->next;
        }
        r = NULL;
    }
    if (r == NULL) {
        r = unused;
        if (r) {
            unused = r->next;
        } else {
            r = aligned_alloc(_Alignof(request), sizeof *r);
        }
        if (r == NULL) {
            return NULL;
        }
        r->next = NULL;
        r->special = false;
        *at = r;
    }
    if (r->special) {
        r->special = false;
        special_requests--;
    }
    r->handle = handle;
    r->event = 0;
    r->active = false;
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

static void remove_at(request **at)
{
    request *r = *at;
    special_requests -= r->special;
    *at = r->next;
    r->next = unused;
    unused = r;
}

OFTEN_RUN uint64_t request_complete_plain(uint64_t handle)
{
    request **at = place_of(REQUESTS, handle);
    if (*at == NULL || (*at)->special || !(*at)->active) {
        return 0;
    }
    uint64_t event = (*at)->event;
    remove_at(at);
    return event;
}

void request_remove(enum request_kind kind, uint64_t handle)
{
    request **at = place_of(kind, handle);
    if (*at) {
        remove_at(at);
    }
}

ALWAYS_INLINE channel *channel_at(channel *table, size_t capacity, const uint64_t key[2])
{
    size_t at = hash_finish(key[0] * UINT64_C(0x9E3779B97F4A7C15) ^ key[1]) & (capacity - 1);
    while (table[at].used && (table[at].key[0] != key[0] || table[at].key[1] != key[1])) {
        at = (at + 1) & (capacity - 1);
    }
    return &table[at];
}

/* Makes room for another channel. */
COLD static bool channels_grow(void)
{
    size_t capacity = channel_capacity ? channel_capacity * 2 : 1024;
    channel *table = aligned_alloc(LINE_BYTES, capacity * sizeof *table);
    if (table == NULL) {
        return channel_count + 1 < channel_capacity;
    }
    memset(table, 0, capacity * sizeof *table);
    for (size_t i = 0; i < channel_capacity; i++) {
        if (channels[i].used) {
            *channel_at(table, capacity, channels[i].key) = channels[i];
        }
    }
    free(channels);
    channels = table;
    channel_capacity = capacity;
    return true;
}

OFTEN_RUN uint64_t next_message(uint32_t group, int64_t peer, int64_t tag, bool sends)
{
    uint64_t number = 0;
    const uint64_t key[2] = {(uint64_t)group << 33 | (uint64_t)sends << 32 | (uint32_t)peer, (uint64_t)tag};
    requests_lock();
    if (channel_count * 2 < channel_capacity || channels_grow()) {
        channel *c = channel_at(channels, channel_capacity, key);
        if (!c->used) {
            c->used = true;
            c->key[0] = key[0];
            c->key[1] = key[1];
            channel_count++;
        }
        number = c->count++;
    }
    requests_unlock();
    return number;
}
