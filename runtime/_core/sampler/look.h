/* The threads that are looked at, and one look at one of them. */
#pragma once

#include "sampler/state.h"

enum sight { HAS_ENDED, AT_REST, HAS_RUN };

/* The row of a thread, or NULL. */
watched *sampler_find(pid_t tid);
/* The row of a thread, added when it is new; NULL when there is no memory. */
watched *sampler_watch(pid_t tid, bool python);
void sampler_forget(size_t row);
/* Writes the sample that ends the rest of a thread, if it is at rest. */
void sampler_emit_held(watched *w);
/* Samples a thread if it has run. `given` is the path when another sampler found it. */
enum sight sampler_look(watched *w, const uint32_t *given, uint32_t given_state);
enum sight sampler_look_natively(watched *w);
