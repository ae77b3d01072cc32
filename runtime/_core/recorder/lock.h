/* The one lock of the recorder, whether it records, and which of its recordings that is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool recorder_is_on(void);
/* Counts starts and forks: what was cached under another generation is void. */
uint64_t recorder_generation(void);
/* Where that is counted. */
extern _Atomic uint64_t recorder_generation_count;
/* The lock, for callers that intern several things in one go. The *_locked functions need it. */
void recorder_lock(void);
void recorder_unlock(void);

/* ---- for recorder.c: under the lock, but for the last ---- */

/* A recording begins or ends: what was cached is void. */
void recorder_turn(bool is_on);
/* In the child after fork, which has one thread, and no recording. */
void recorder_lock_after_fork(void);
