#include "threads/cores.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "threads/state.h"

#define LOOK_NS UINT64_C(100000000)

static atomic_bool wanted;
static _Atomic uint64_t used_ns[MOST_CORES];

void cores_look(core_look *latest, pid_t tid, uint64_t now, uint64_t cpu_ns)
{
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) || now < latest->look_ns + LOOK_NS) {
        return;
    }
    int core = thread_core(tid);
    if (core >= 0 && core < MOST_CORES && latest->look_ns != 0 && cpu_ns > latest->cpu_ns) {
        atomic_fetch_add_explicit(&used_ns[core], cpu_ns - latest->cpu_ns, memory_order_relaxed);
    }
    *latest = (core_look){now, cpu_ns};
}

size_t cores_used(uint64_t cpu_ns[MOST_CORES])
{
    size_t count = 0;
    atomic_store(&wanted, true);
    for (size_t core = 0; core < MOST_CORES; core++) {
        cpu_ns[core] = atomic_load_explicit(&used_ns[core], memory_order_relaxed);
        count = cpu_ns[core] ? core + 1 : count;
    }
    return count;
}

void cores_after_fork(void)
{
    atomic_store(&wanted, false);
    for (size_t core = 0; core < MOST_CORES; core++) {
        atomic_store_explicit(&used_ns[core], 0, memory_order_relaxed);
    }
}
