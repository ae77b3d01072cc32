/* How many calls of MPI are written one by one: past a rate, a sample of them. */
#ifndef SCALANA_CALL_RATE_H
#define SCALANA_CALL_RATE_H

#include <stdint.h>

/* One call in 2^level is written: those that all ranks that take part agree on, see record_keys.h. */
extern uint32_t call_rate_level;

void call_rate_start(double calls_per_second);
/* As many events were written. */
void call_rate_wrote(uint64_t now_ns, uint64_t events);
/* Lets the level fall where little is written. Costs nothing if it was called a moment ago. */
void call_rate_look(uint64_t now_ns);

#endif
