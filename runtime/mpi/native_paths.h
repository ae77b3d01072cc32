/* Call paths of native code in the record: a code per module, with its build id as name, and addresses as offsets. */
#ifndef SCALANA_NATIVE_PATHS_H
#define SCALANA_NATIVE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intern.h"
#include "unwind.h"

#define CALL_SITES 256u /* power of two */
#define CALL_SLOTS 40u

/* A place from which a thread called before: a call that returns to the same instruction, with the same stack pointer
 * and the same return addresses at the same places above it, has the same path. */
typedef struct {
    uintptr_t pc, sp;
    uint64_t generation;
    uint32_t path;
    uint32_t count;
    total_amount *sum; /* where its latest call was counted: the thread's row, if it still stands for such calls */
    struct {
        uintptr_t slot, value;
    } above[CALL_SLOTS];
} call_site;

typedef struct {
    uintptr_t stack_high;
    call_site sites[CALL_SITES];
} call_cache;

call_cache *call_cache_new(void);
/* The site of the calling thread's call that returns to `pc`, with the registers that it had there. Its path is 0 when
 * nothing is recorded. Valid until the thread's next call. */
call_site *call_site_unwound(call_cache *cache, uintptr_t pc, uintptr_t sp, uintptr_t fp);
/* Path of frames, innermost first. 0 when nothing is recorded. */
uint32_t native_path(const unwind_frame *frames, size_t count);

/* Where the site of a call is, if it is known. */
static inline call_site *call_site_at(call_cache *cache, uintptr_t pc, uintptr_t sp)
{
    return &cache->sites[((pc * UINT64_C(0x9E3779B97F4A7C15) >> 32) ^ (sp >> 4)) & (CALL_SITES - 1)];
}

static inline bool call_site_is(const call_site *site, uintptr_t pc, uintptr_t sp, uint64_t generation)
{
    if (site->pc != pc || site->sp != sp || site->generation != generation) {
        return false;
    }
    for (uint32_t i = 0; i < site->count; i++) {
        if (*(const volatile uintptr_t *)site->above[i].slot != site->above[i].value) {
            return false;
        }
    }
    return true;
}

#endif
