/* Samples of native threads: the kernel copies a running thread's registers and the top of its stack into a buffer that
 * the sampler reads (perf_event_open), so that no signal interrupts the program. Threads at rest are read where they
 * are. */
#ifndef SCALANA_NATIVE_SAMPLES_H
#define SCALANA_NATIVE_SAMPLES_H

/* Makes the sampler look at native threads. Returns how: "native", "signal" where the kernel does not allow that
 * (SCALANA_NATIVE_SAMPLES=signal asks for it), or "none" if there is only what threads do at rest. */
const char *native_samples_prepare(double rate_hz);
/* In the child after fork. */
void native_samples_after_fork(void);

#endif
