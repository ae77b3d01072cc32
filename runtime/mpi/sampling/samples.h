/* Samples of native threads: registers and the top of the stack of a running thread are copied, by a timer's signal or by
 * the kernel, and unwound by the sampler. Threads at rest are read where they are. */
#pragma once

/* Makes the sampler look at native threads. Returns how: "timers" first where these are without risk, or "kernel"
 * (SCALANA_NATIVE_SAMPLES=signal or =kernel asks for one of them alone), or "none" if there is only what threads do at
 * rest. */
const char *native_samples_prepare(double rate_hz);
/* In the child after fork. */
void native_samples_after_fork(void);
