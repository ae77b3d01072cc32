/* Code objects: their content, read and interned once, and the call paths that stacks of them make. */
#pragma once

#include "base/memory.h"
#include "frames/types.h"

/* Interns a stack, without its inner frames of scalana's runtime. False when a code object has gone. */
bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path);
