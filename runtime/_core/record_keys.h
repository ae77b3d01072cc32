/* The hashes by which all ranks agree on which communication to keep where not all is. */
#ifndef SCALANA_RECORD_KEYS_H
#define SCALANA_RECORD_KEYS_H

#include <stdbool.h>

#include "checksum.h"

/* Of a collective: hash_bytes of its communicator's name, and its number there. */
static inline uint64_t key_of_collective(uint64_t name_hash, uint64_t seq)
{
    return hash_finish(hash_mix(name_hash, seq));
}

/* Of a message: world ranks, tag, and its number in this channel. */
static inline uint64_t key_of_message(int64_t source, int64_t destination, int64_t tag, uint64_t seq)
{
    uint64_t hash = hash_mix(HASH_SEED, (uint64_t)source);
    hash = hash_mix(hash, (uint64_t)destination);
    hash = hash_mix(hash, (uint64_t)tag);
    return hash_finish(hash_mix(hash, seq));
}

/* One key in 2^level is kept: at a higher level, a part of what is kept at a lower one. */
static inline bool is_kept(uint64_t key, uint32_t level)
{
    return (key & ((UINT64_C(1) << level) - 1)) == 0;
}

#endif
