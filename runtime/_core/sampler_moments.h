/* Moments that all processes of a host agree on without a word between them, by the clock that they share.
 *
 * Ranks that meet often wait for each other's interruptions: those of one rank after the other delay all of them by their
 * sum, those at the same moment by the longest (Petrini et al., SC'03). So all ranks of a host are sampled together. */
#ifndef SCALANA_SAMPLER_MOMENTS_H
#define SCALANA_SAMPLER_MOMENTS_H

#include <stdint.h>

/* The first tick after `now_ns`. Ticks are about `step_ns` apart, up to an eighth of it sooner or later, so that a program
 * that works in step with the clock is sampled fairly. */
uint64_t moments_tick_after(uint64_t now_ns, uint64_t step_ns);
/* The first moment at or after `now_ns` at which periods of `period_ns` begin. Which one that is within a period changes
 * now and then, for the same reason. */
uint64_t moments_period_from(uint64_t now_ns, uint64_t period_ns);

#endif
