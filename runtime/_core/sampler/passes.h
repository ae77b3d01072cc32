/* One pass over all threads: those known, those that the interpreter lists, those that the kernel lists. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Looks at all threads that have native samples. */
void sampler_pass_over_known(void);
/* Looks at all threads of the interpreter, and for new ones if one has run, or `scan`. */
void sampler_pass_over_python(uint64_t now, bool scan);
/* Looks through the kernel's list for threads without Python frames, and for those that are gone. */
void sampler_pass_over_native(uint64_t now);
void sampler_emit_all_held(void);
