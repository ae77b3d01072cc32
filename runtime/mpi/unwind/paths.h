/* Call paths of native code in the record: a code per module, with its build id as name, and addresses as offsets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "unwind/unwind.h"

#define CALL_BUCKETS 256u /* power of two */
#define CALL_LINES 3072u  /* of a cache's memory: room for some 800 places */
#define CALL_FRAMES 64u   /* of a place: at most so many return addresses are compared */
#define LINE_BYTES 64u

/* A return address on the stack, and how many bytes above the caller's stack pointer it lies. */
typedef struct {
    uintptr_t value;
    uintptr_t distance;
} return_address;

/* A place from which a thread called before: a call that returns to the same instruction, with the same stack pointer
 * and the same return addresses at the same places above it, has the same path. A function that is called from several
 * places has as many of these in one bucket. Whatever a call needs lies together: a program may have filled the caches
 * since the last one. */
typedef struct call_site {
    uintptr_t pc, sp;
    struct call_site *follower; /* from where the thread called next, the last time */
    total_amount *sum; /* where its latest call was counted: the thread's row, if it still stands for such calls */
    const void *lane;  /* of its latest message; only a hint */
    struct call_site *next; /* of the bucket */
    uint32_t path;
    uint32_t count;
    return_address above[]; /* outwards */
} call_site;

/* From where a thread called, and from where it called next when it had called from there before. */
typedef struct {
    call_site *latest, *expected;
} call_history;

/* All places that a thread has called from. */
typedef struct call_memory call_memory;

/* Of the calling thread. NULL when memory is short. */
call_memory *call_memory_new(call_history *history);
void call_memory_free(call_memory *memory);
/* The site of the calling thread's call that returns to `pc`, with the registers that it had there: one that is known,
 * or a new one. Its path is 0 when nothing is recorded. Valid until the thread's next call. */
call_site *call_site_of(call_memory *memory, uintptr_t pc, uintptr_t sp, uintptr_t fp);
/* Path of frames, innermost first. 0 when nothing is recorded. */
uint32_t native_path(const unwind_frame *frames, size_t count);

/* Whether this is the site of a call. */
static inline bool call_site_is(const call_site *site, uintptr_t pc, uintptr_t sp)
{
    if (site->pc != pc || site->sp != sp) {
        return false;
    }
    for (const return_address *at = site->above, *end = at + site->count; at != end; at++) {
        if (*(const volatile uintptr_t *)(sp + at->distance) != at->value) {
            return false;
        }
    }
    return true;
}

/* The thread has called from there. What the end of this call needs, and the begin of the next, is fetched meanwhile. */
static inline void call_history_goes_on(call_history *history, call_site *site)
{
    history->latest = site;
    history->expected = site->follower;
    __builtin_prefetch(site->sum, 1);
    if (site->follower) {
        __builtin_prefetch(site->follower);
        __builtin_prefetch((const char *)site->follower + LINE_BYTES);
    }
}

/* Fetches what the next call will need, if it comes from where it is expected. */
static inline void call_history_fetch(const call_history *history)
{
    if (history->expected) {
        __builtin_prefetch(history->expected->lane, 1);
    }
}
