#include "handles/library.h"

OFTEN agent_api agent;
OFTEN bool may_only_count;
OFTEN bool mpi_is_over;
OWN native_thread *own_thread;

const recorder_api *recorder(void)
{
    return agent.recorder;
}

/* The first call of a thread, or one at its end. */
COLD static native_thread *begin_or_end(void)
{
    native_thread *t = agent.thread_self();
    if (t) {
        t->known_at = &own_thread;
        own_thread = t;
    }
    return t;
}

native_thread *agent_thread(void)
{
    return own_thread ? own_thread : begin_or_end();
}
