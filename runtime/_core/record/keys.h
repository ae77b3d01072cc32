/* The hashes by which all ranks agree on which communication to keep where not all is. */
#pragma once

#include <stdbool.h>

#include "base/checksum.h"

/* Of a collective: hash_bytes of its communicator's name, and its number there. */
static inline uint64_t key_of_collective(uint64_t name_hash, uint64_t seq)
{
    return hash_finish(hash_mix(name_hash, seq));
}

/* Of the channel in which a rank sends to its peer, or receives from it: world ranks, the sender's first, and tag. */
static inline uint64_t hash_of_channel(int64_t me, int64_t peer, int64_t tag, bool sends)
{
    uint64_t hash = hash_mix(HASH_SEED, (uint64_t)(sends ? me : peer));
    hash = hash_mix(hash, (uint64_t)(sends ? peer : me));
    return hash_mix(hash, (uint64_t)tag);
}

/* Of a message: the hash of its channel, and its number there. */
static inline uint64_t key_of_message(uint64_t channel_hash, uint64_t seq)
{
    return hash_finish(hash_mix(channel_hash, seq));
}

/* The level at which a collective is thinned out, at most `level`: of a communicator the first 64 not at all, and each
 * time that their number doubles, one level more. Among very many messages the few collectives of a program are where
 * its ranks wait for each other. */
static inline uint32_t level_of_collective(uint64_t seq, uint32_t level)
{
    uint64_t times = seq >> 6;
    uint32_t most = times ? 64 - (uint32_t)__builtin_clzll(times) : 0;
    return most < level ? most : level;
}

/* Of what is handed from one process to another under an id. */
static inline uint64_t key_of_remote_call(uint64_t id)
{
    return hash_finish(hash_mix(HASH_SEED, id));
}

/* Of a training step, by its number. */
static inline uint64_t key_of_step(int64_t step)
{
    return hash_finish(hash_mix(HASH_SEED, (uint64_t)step));
}

/* One key in 2^level is kept: at a higher level, a part of what is kept at a lower one. */
static inline bool is_kept(uint64_t key, uint32_t level)
{
    return (key & ((UINT64_C(1) << level) - 1)) == 0;
}
