/* Moments that all processes of a host agree on without a word between them, by the clock that they share.
 *
 * Ranks that meet often wait for each other's interruptions: those of one rank after the other delay all of them by their
 * sum, those at the same moment by the longest (Petrini et al., SC'03). So ranks of a host that run are sampled together.
 * Ranks that rest are not delayed, and often rest at the same places from the same moments on: looked at together, all
 * would be told to have left a place too early, or too late, by as much; looked at in turns, these errors cancel out. */
#pragma once

#include <stdint.h>

/* The first tick after `now_ns`. Ticks are about `step_ns` apart, up to an eighth of it sooner or later, so that a program
 * that works in step with the clock is sampled fairly. */
uint64_t moments_tick_after(uint64_t now_ns, uint64_t step_ns);
/* The same for one process of a host, at moments of its own. */
uint64_t moments_own_tick_after(uint64_t now_ns, uint64_t step_ns, uint32_t process);
