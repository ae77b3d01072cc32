/* How many calls of MPI are written one by one: past a rate, a sample of them. */
#pragma once

#include <stdint.h>

typedef struct {
    uint32_t level;   /* one call in 2^level is written: those that all ranks that take part agree on, see record/keys.h */
    uint64_t look_ns; /* when to look again whether it may fall */
} call_rate;

extern call_rate call_rate_now;

void call_rate_start(double calls_per_second);
/* As many events were written. */
void call_rate_wrote(uint64_t now_ns, uint64_t events);
/* Lets the level fall where little is written. To be called when it is time for that. */
void call_rate_look(uint64_t now_ns);
