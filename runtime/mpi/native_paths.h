/* Call paths of native code in the record: a code per module, with its build id as name, and addresses as offsets. */
#ifndef SCALANA_NATIVE_PATHS_H
#define SCALANA_NATIVE_PATHS_H

#include <stddef.h>
#include <stdint.h>

#include "unwind.h"

/* Calls of one thread that were looked at before: a call from the same place, with the same stack pointer and the same
 * return addresses at the same places above it, has the same path. */
typedef struct call_cache call_cache;

call_cache *call_cache_new(void);
/* Path of the calling thread's call that returns to `pc`, with the registers that it had there. */
uint32_t native_path_of_call(call_cache *cache, uintptr_t pc, uintptr_t sp, uintptr_t fp);
/* Path of frames, innermost first. 0 when nothing is recorded. */
uint32_t native_path(const unwind_frame *frames, size_t count);

#endif
