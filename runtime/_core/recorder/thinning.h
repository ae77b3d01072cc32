/* Which communication calls are kept once the size budget runs low: the same on all ranks that take part. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recorder/call_arguments.h"

/* Samples are taken on every 2^level-th tick. */
uint32_t recorder_level(void);

/* ---- the *_locked functions need the recorder's lock ---- */

/* Number of times that the remaining budget has halved. */
uint32_t recorder_level_locked(void);
/* The same for spans, which leave a part of the budget to the steps that they are in. */
uint32_t recorder_span_level_locked(void);
/* Whether a call is among those that are kept at this level; on all ranks that take part, or on none. */
bool recorder_keeps_locked(const call_arguments *call, uint32_t level);
