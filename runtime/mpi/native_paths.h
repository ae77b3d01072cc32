/* Call paths of native code in the record: a code per module, with its build id as name, and addresses as offsets. */
#ifndef SCALANA_NATIVE_PATHS_H
#define SCALANA_NATIVE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intern.h"
#include "unwind.h"

#define CALL_BUCKETS 256u   /* power of two */
#define CALL_LINES 2048u    /* of a cache's memory: room for some 700 places */
#define CALL_WORDS 64u      /* of a place: at most so many return addresses are compared */
#define CALL_VALUE_BITS 48u /* of an address; above, in units of 8 bytes, how far it lies from the one before */
#define LINE_BYTES 64u

/* A place from which a thread called before: a call that returns to the same instruction, with the same stack pointer
 * and the same return addresses at the same places above it, has the same path. A function that is called from several
 * places has as many of these in one bucket. Whatever a call needs lies together: a program may have filled the caches
 * since the last one. */
typedef struct call_site {
    uintptr_t pc, sp;
    struct call_site *follower; /* from where the thread called next, the last time */
    total_amount *sum; /* where its latest call was counted: the thread's row, if it still stands for such calls */
    struct call_site *next; /* of the bucket */
    uint32_t path;
    uint32_t count;
    uint64_t above[]; /* return addresses, outwards; 0: only a distance, of a frame too large for one word */
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
    uintptr_t slot = sp;
    for (uint32_t i = 0; i < site->count; i++) {
        uintptr_t value = site->above[i] & ((UINT64_C(1) << CALL_VALUE_BITS) - 1);
        slot += (site->above[i] >> CALL_VALUE_BITS) * sizeof slot;
        if (value && *(const volatile uintptr_t *)slot != value) {
            return false;
        }
    }
    return true;
}

/* The thread has called from there. */
static inline void call_history_goes_on(call_history *history, call_site *site)
{
    history->latest = site;
    history->expected = site->follower;
}

#endif
