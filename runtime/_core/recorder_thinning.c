/* Which communication calls are kept once the size budget runs low: the same on all ranks that take part. */
#include "recorder_state.h"

#include "checksum.h"
#include "record_kinds.h"

#define LARGEST_LEVEL 24u

uint32_t recorder_level_locked(void)
{
    uint64_t used = writer_bytes(&rec.writer);
    uint64_t left = used < rec.budget ? rec.budget - used : 0;
    uint32_t level = 0;
    while (level < LARGEST_LEVEL && left <= rec.budget >> (level + 1)) {
        level++;
    }
    return level;
}

uint32_t recorder_level(void)
{
    recorder_lock();
    uint32_t level = recorder_is_on() ? recorder_level_locked() : 0;
    recorder_unlock();
    return level;
}

uint64_t recorder_key_collective(const char *name, size_t size, uint64_t seq)
{
    return hash_finish(hash_word(hash_bytes(HASH_SEED, name, size), seq));
}

uint64_t recorder_key_message(int64_t source, int64_t destination, int64_t tag, uint64_t seq)
{
    uint64_t hash = hash_word(HASH_SEED, (uint64_t)source);
    hash = hash_word(hash, (uint64_t)destination);
    hash = hash_word(hash, (uint64_t)tag);
    return hash_finish(hash_word(hash, seq));
}

bool recorder_keeps_locked(const call_arguments *call, uint32_t level)
{
    if (call->completes) {
        return (call->completes & 1) == 0; /* as its post */
    }
    if (level == 0) {
        return true;
    }
    const group_row *group = call->group && call->group <= rec.group_count ? &rec.groups[call->group - 1] : NULL;
    uint64_t key;
    bool sends = call->operation == OPERATION_SEND || call->operation == OPERATION_BLOCKING_SEND;
    if (sends || call->operation == OPERATION_RECV) {
        if ((call->flags & EVENT_ANY_SOURCE) || call->peer < 0) {
            /* The channel is not known before the message is here. Such receives are kept as long as possible. */
            if (level >= 4 && !rec.any_source_stopped) {
                rec.any_source_stopped = true;
                recorder_note_locked("size budget: receives from any source are no longer recorded");
            }
            return !rec.any_source_stopped;
        }
        int64_t me = group ? (int64_t)group->my_world_rank : -1;
        key = recorder_key_message(sends ? me : call->peer, sends ? call->peer : me, call->tag, call->seq);
    } else {
        key = hash_finish(hash_word(group ? group->name_hash : HASH_SEED, call->seq));
    }
    return (key & ((UINT64_C(1) << level) - 1)) == 0;
}
