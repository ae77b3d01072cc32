/* What the sources of the wrappers' library share. */
#ifndef SCALANA_CALLS_INTERNAL_H
#define SCALANA_CALLS_INTERNAL_H

#include "communicators.h"
#include "mpi_calls.h"
#include "record/kinds.h"
#include "requests.h"

enum { INIT = 17, FINALIZE = 18, COMM_CREATE = 19, SENDRECV = 22, PROBE = 23, TEST = 25, START = 26 };
enum { LOCK_SHARED = 1, LOCK_EXCLUSIVE = 2 }; /* tag of a lock in the record */

enum { WIN_POST = 31, WIN_WAIT = 34 };

#define NOT_WRITTEN UINT64_C(1) /* like all odd ids of events */

/* Handles and statuses of the wait that a thread is in, and a probe that no receive has followed yet. */
typedef struct {
    MPI_Request *handles;
    MPI_Status *statuses;
    uint64_t *events; /* up to two of each */
    request **taken;  /* out of the table, as what waits for them completes them all; NULL where it is not known */
    int capacity;
    bool probed;
    call_state probe;
} scratch_space;

/* What most calls run and use lies together: a program may have filled the caches since the last one. */
#define OFTEN_RUN __attribute__((hot))
#define OFTEN __attribute__((section(".data.often")))
#define COLD __attribute__((cold, noinline))
#define APART __attribute__((noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline)) /* parts of what is run often */
#define OWN __thread __attribute__((tls_model("initial-exec")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

extern bool mpi_is_over; /* after MPI_Finalize nothing may be asked */
bool mpi_has_begun(void);
extern OWN native_thread *own_thread; /* NULL before its first call, and at its end */
extern OWN scratch_space *scratch;

const recorder_api *recorder(void);
native_thread *agent_thread(void);

static inline uint32_t rate_level(void)
{
    return __atomic_load_n(&agent.rate->level, __ATOMIC_RELAXED);
}

/* Both clocks of the calling thread. */
ALWAYS_INLINE clock_moment read_clocks(native_thread *t)
{
    clock_moment now;
    if (UNLIKELY(!thread_clocks_reckon(&t->clocks, agent.clock_rules, &now))) {
        agent.ask_clocks(&t->clocks, &t->clock_asked_ns);
        now = (clock_moment){t->clocks.wall_ns, t->clocks.wall_ns - t->clocks.behind_ns};
    }
    return now;
}

/* From now on a flush shows that the thread is in the call. */
ALWAYS_INLINE void show_call(native_thread *t, uint32_t operation, uint32_t group, uint64_t seq, int64_t peer,
                             uint64_t enter_ns)
{
    t->call.operation = operation;
    t->call.group = group;
    t->call.seq = seq;
    t->call.peer = peer;
    __atomic_store_n(&t->call.enter_ns, enter_ns, __ATOMIC_RELEASE);
}

/* The thread is in no call any more. */
ALWAYS_INLINE void leave_call(native_thread *t)
{
    __atomic_store_n(&t->call.enter_ns, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&t->path, 0, __ATOMIC_RELAXED);
    t->depth = 0;
    call_history_fetch(&t->history);
}

call_times times_of(const call_state *s);
void show(call_state *s);
void returned(call_state *s);
void leave(call_state *s);
/* A call that is not of the kind that was counted at its site before. */
void count_anew(native_thread *thread, call_site *site, const total_amount *one);

ALWAYS_INLINE void add_to_sums(native_thread *thread, call_site *site, uint32_t path, uint32_t operation, uint32_t group,
                               uint64_t nbytes, uint64_t wall_ns, uint64_t cpu_ns)
{
    total_amount *row = site ? site->sum : NULL;
    if (row && row->path == path && row->operation == operation && row->group == group) {
        thread_totals_grow(&row->calls, 1);
        thread_totals_grow(&row->nbytes, nbytes);
        thread_totals_grow(&row->wall_ns, wall_ns);
        thread_totals_grow(&row->cpu_ns, cpu_ns);
    } else {
        count_anew(thread, site, &(total_amount){path, operation, group, 1, nbytes, wall_ns, cpu_ns});
    }
}

/* Adds a call to the sums of its path. */
void count_call(const call_state *s, const call_arguments *call, uint64_t wall_ns, uint64_t cpu_ns);
/* Writes a call that is counted elsewhere, if it is among those to be written. Its event, NOT_WRITTEN, or 0. */
uint64_t write_call(const call_arguments *call, const communicator *on, const call_times *times);
/* Counts a call, and writes it likewise. */
uint64_t write_event(const call_state *s, const call_arguments *call);
uint64_t write_post_inside(const call_state *s, call_arguments call, const communicator *on, uint64_t step);
void write_completions(const call_state *s, uint64_t *events, size_t count);
scratch_space *own_scratch(int count);
void begin_on(call_state *s, uint32_t operation, communicator *on, int root, uint64_t nbytes);
void number_message(call_state *s, bool sends);
void settle(call_arguments *call, const communicator *on, const MPI_Status *status);
void resolve(call_arguments *call, const communicator *on, const MPI_Status *status);
void write_probe(const call_state *probe, uint64_t event);
void after_receive(const call_state *s, uint64_t event);
/* Adds a request to the table; of a receive from anybody with all that its event will need. */
request *remember(const call_state *s, uint64_t handle, uint64_t event);

#endif
