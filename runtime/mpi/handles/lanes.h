/* Channels of messages by what calls name them by, and what a call to a channel needs to know of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/paths.h"

typedef struct {
    uint64_t key[2];
    uint64_t count; /* of messages so far, unless its lane has it */
    struct lane *lane;
    bool used;
} channel;

/* A channel by what calls name it by: the communicator's handle, the peer's rank in it, and a tag. On one line, with all
 * that a call needs. */
typedef struct lane {
    _Alignas(LINE_BYTES) uint64_t comm;
    int peer, tag;
    channel *of;     /* NULL: this says nothing */
    uint64_t count;  /* of its messages so far */
    uint64_t hash;   /* of the channel, see record/keys.h */
    int32_t world_peer;
    uint32_t group;  /* id in the record */
    bool sends;
} lane;

#define LANE_BITS 8
extern lane lanes[1u << LANE_BITS];

/* The channel counts its messages itself again. */
void lane_ended(lane *l);
/* A communicator went away, or its id in the record. */
void lanes_forget(void);

static inline lane *lane_place(uint64_t comm, int peer, int tag, bool sends)
{
    uint64_t ends = (uint64_t)(uint32_t)peer << 33 | (uint64_t)(uint32_t)tag << 1 | sends;
    return &lanes[(ends ^ comm) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LANE_BITS)];
}

/* NULL if it was not noted, or forgotten. */
static inline lane *lane_of(uint64_t comm, int peer, int tag, bool sends)
{
    lane *found = lane_place(comm, peer, tag, sends);
    bool is_it = found->comm == comm && found->peer == peer && found->tag == tag && found->sends == sends && found->of;
    return is_it ? found : NULL;
}
