#include "recorder/thinning.h"

#include "record/keys.h"
#include "record/kinds.h"
#include "recorder/lock.h"
#include "recorder/state.h"

#define LARGEST_LEVEL 24u

/* The level if so many bytes were not there to be used. */
static uint32_t level_without(uint64_t reserve)
{
    uint64_t used = writer_bytes(&rec.writer) + reserve;
    uint64_t left = used < rec.budget ? rec.budget - used : 0;
    uint32_t level = 0;
    while (level < LARGEST_LEVEL && left <= rec.budget >> (level + 1)) {
        level++;
    }
    return level;
}

uint32_t recorder_level_locked(void)
{
    return level_without(0);
}

uint32_t recorder_span_level_locked(void)
{
    return level_without(rec.budget / 16);
}

uint32_t recorder_level(void)
{
    recorder_lock();
    uint32_t level = recorder_is_on() ? recorder_level_locked() : 0;
    recorder_unlock();
    return level;
}

bool recorder_keeps_locked(const call_arguments *call, uint32_t level)
{
    if (call->completes) {
        return (call->completes & 1) == 0; /* as its post */
    }
    if (level == 0) {
        return true;
    }
    if (call->operation >= OPERATION_SUBMIT && call->operation <= OPERATION_NEXT_BATCH) {
        return call->seq == 0 || is_kept(key_of_remote_call(call->seq), level); /* 0: known when it is over */
    }
    const group_row *group = call->group && call->group <= rec.group_count ? &rec.groups[call->group - 1] : NULL;
    uint64_t key;
    bool sends = call->operation == OPERATION_SEND || call->operation == OPERATION_BLOCKING_SEND;
    if (group == NULL) {
        key = hash_finish(rec.serial); /* meets nobody */
    } else if (sends || call->operation == OPERATION_RECV) {
        bool unknown = (call->flags & (EVENT_ANY_SOURCE | EVENT_NUMBERED)) == EVENT_ANY_SOURCE;
        if (unknown || call->peer < 0) {
            /* The channel is not known before the message is here. Such receives are kept as long as possible. */
            if (level >= 4 && !rec.any_source_stopped) {
                rec.any_source_stopped = true;
                recorder_note_locked("size budget: receives from any source are no longer recorded");
            }
            return !rec.any_source_stopped;
        }
        int64_t me = (int64_t)group->my_world_rank;
        key = key_of_message(hash_of_channel(me, call->peer, call->tag, sends), call->seq);
    } else {
        key = key_of_collective(group->name_hash, call->seq);
    }
    return is_kept(key, level);
}
