/* CRC-32 with the polynomial of zlib, and the stable hashes that names and thinning use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Same value as zlib's crc32(0, data, size). */
uint32_t checksum_crc32(const uint8_t *data, size_t size);

#define HASH_SEED UINT64_C(0xcbf29ce484222325)

/* FNV-1a, 64 bits, continued from `hash` (HASH_SEED at first). */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* FNV-1a over the eight bytes of `value`, least significant first. */
static inline uint64_t hash_word(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        hash = (hash ^ ((value >> (8 * i)) & 0xff)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* One step over a whole word: for keys that are made of every call. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

/* The 64-bit finalizer of MurmurHash3: spreads every bit over the low ones, which decide what is kept. */
static inline uint64_t hash_finish(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 33;
    hash *= UINT64_C(0xc4ceb9fe1a85ec53);
    hash ^= hash >> 33;
    return hash;
}
