/* Whether a thread shares its core with others in turns that end when the kernel keeps time.
 *
 * Timers of CPU time end then, too: what such a thread does some milliseconds after it got its core is hit each time, and
 * what it does before and after that never, where the kernel's samples hit all alike. Of threads that yield their core very
 * often chance decides what is hit, and the kernel's samples, which cost something at every switch, would cost much. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What is kept of a thread: zeros to begin with. */
typedef struct {
    unsigned long long ran_ns, waited_ns, turns; /* on a core, for one, and how often it got one, when that was asked */
    size_t samples; /* since then */
    bool asked;
} core_turns;

/* Whether a thread takes turns, after so many more samples of it; false until there are enough. */
bool core_turns_taken(core_turns *own, pid_t tid, size_t samples);
