/* Samples of native threads: the kernel copies a running thread's registers and the top of its stack into a buffer that
 * the sampler reads (perf_event_open), so that no signal ever interrupts the program. Threads at rest are read where they
 * are. */
#ifndef SCALANA_NATIVE_SAMPLES_H
#define SCALANA_NATIVE_SAMPLES_H

#include <stdbool.h>

/* Makes the sampler look at native threads. `why`: where the kernel does not allow it. */
bool native_samples_prepare(double rate_hz, const char **why);
/* In the child after fork. */
void native_samples_after_fork(void);

#endif
