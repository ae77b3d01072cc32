/* Reading the Python frames of a thread without the interpreter's help: the self-test, and the calling thread's own path.
 *
 * What differs between CPython versions is a table of offsets (layout.h). The walk itself is written once, over reads that
 * cannot fault, and believes nothing: types are compared with the known type objects, lengths and depths are bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frames/types.h"

/* Checks that this interpreter's frames can be read, once; the interpreter's lock is held. If not, `why` says why. */
bool frames_prepare(const char **why);

/* Call path of the calling thread, which holds the interpreter's lock, without the inner frames of scalana's runtime; 0
 * when there is none. */
uint32_t frames_path_of_self(path_cache *cache);
/* The same for a thread that has let go of the interpreter's lock, to call something that takes long: its frames stand
 * still meanwhile. 0 where frames cannot be read natively. */
uint32_t frames_path_of_self_unlocked(path_cache *cache);

/* The innermost frames of the calling thread, which may have let go of the interpreter's lock. 0 where they cannot be
 * read. */
size_t frames_callers_of_self(frame_caller *callers, size_t capacity);
