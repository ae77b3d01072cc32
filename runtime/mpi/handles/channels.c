#include "handles/channels.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "handles/lanes.h"
#include "handles/library.h"
#include "handles/requests.h"
#include "record/keys.h"

OFTEN static channel *channels;
OFTEN static size_t channel_count, channel_capacity;

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
    lanes_forget();
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

/* NULL when memory is short. The lock of requests is the caller's. */
ALWAYS_INLINE channel *channel_of(uint32_t group, int64_t peer, int64_t tag, bool sends)
{
    const uint64_t key[2] = {(uint64_t)group << 33 | (uint64_t)sends << 32 | (uint32_t)peer, (uint64_t)tag};
    if (channel_count * 2 >= channel_capacity && !channels_grow()) {
        return NULL;
    }
    channel *c = channel_at(channels, channel_capacity, key);
    if (!c->used) {
        c->used = true;
        c->key[0] = key[0];
        c->key[1] = key[1];
        channel_count++;
    }
    return c;
}

ALWAYS_INLINE uint64_t *count_of(channel *c)
{
    return c->lane ? &c->lane->count : &c->count;
}

OFTEN_RUN uint64_t next_message(uint32_t group, int64_t peer, int64_t tag, bool sends)
{
    requests_lock();
    channel *c = channel_of(group, peer, tag, sends);
    uint64_t number = c ? (*count_of(c))++ : 0;
    requests_unlock();
    return number;
}

OFTEN_RUN uint64_t next_message_noted(communicator *on, uint32_t group, int peer, int tag, bool sends)
{
    lane *known = may_only_count ? lane_of(on->handle, peer, tag, sends) : NULL;
    if (known) {
        return known->count++;
    }
    int64_t other = world_rank(on, peer);
    requests_lock();
    channel *c = channel_of(group, other, tag, sends);
    uint64_t number = c ? (*count_of(c))++ : 0;
    if (c && other >= 0 && may_only_count) {
        lane *l = lane_place(on->handle, peer, tag, sends);
        lane_ended(l);
        if (c->lane) { /* by another handle of the communicator */
            lane_ended(c->lane);
        }
        *l = (lane){
            .comm = on->handle,
            .peer = peer,
            .tag = tag,
            .of = c,
            .count = c->count,
            .hash = hash_of_channel(on->me, other, tag, sends),
            .world_peer = (int32_t)other,
            .group = group,
            .sends = sends,
        };
        c->lane = l;
    }
    requests_unlock();
    return number;
}

COLD void message_withdrawn(uint32_t group, int64_t peer, int64_t tag)
{
    channel *c = channel_of(group, peer, tag, false);
    if (c && *count_of(c)) {
        --*count_of(c);
    }
}
