/* The frames of another thread, which runs meanwhile. */
#pragma once

#include "base/memory.h"
#include "frames/types.h"

/* Has all code objects read again. */
void frames_doubt(stack_hints *hints);

/* Reads the frames of another thread. False when they changed underfoot. Not to be called by two threads at once. What
 * `cache` holds of this thread's previous stack saves reads: code objects of files that stand where they stood, at the
 * same instruction, are checked only once in a while. */
bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache);

/* The code object at this address is of a file. */
void frames_trust(stack_hints *hints, uintptr_t code);
/* Whether this interpreter's frames and code objects fit where they are read to. */
bool frames_fit(void);
