#include "sampler/state.h"

sampler_state *sampling;
const sampler_native *native_source;
atomic_int sampler_tid, flusher_tid;

bool sampler_is_own(pid_t tid)
{
    return tid == atomic_load(&sampler_tid) || tid == atomic_load(&flusher_tid);
}
