/* The clocks of a thread that calls MPI, read without a system call where that is good enough.
 *
 * Wall time comes from the processor's counter, from which the kernel makes CLOCK_MONOTONIC too, at several times the
 * cost. The CPU clock is a system call, which is spared where the thread has not lost its core since: it is then reckoned
 * from the wall clock. Whether it has, the kernel tells by the mark of a restartable sequence (rseq(2)), which it clears
 * whenever a thread loses its core; where there are none, it is guessed from how little time has passed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

typedef struct {
    uint64_t wall_ns;      /* as it was read last; never less than before */
    uint64_t behind_ns;    /* so much less the CPU clock is, as long as it is reckoned */
    uint64_t *mark;        /* `kept` stands there until the thread loses its core; NULL where the kernel does not tell */
    uint64_t kept;
    uint64_t anchor_ticks, anchor_ns; /* the processor's counter and the wall clock at one moment */
    uint64_t ns_per_tick;  /* of the counter from that moment on, times 2^32 */
    uint64_t ticks_until;  /* further from its anchor the counter is not trusted, or the CPU clock not reckoned */
} clock_readings;

typedef struct {
    uint64_t wall_ns, cpu_ns;
} clock_moment;

/* What all threads go by. Changes now and then. */
typedef struct {
    uint64_t ns_per_tick;  /* of the counter, times 2^32 */
    uint64_t most_ticks;   /* further from its anchor the counter is not trusted; 0 where it is not used at all */
    uint64_t kept_mark;    /* of threads that have kept their core */
    uint64_t kept_ns;      /* their CPU clock is reckoned for no longer than this */
    uint64_t reckon_ns;    /* that of threads without a mark is reckoned over no more than this at once */
    uint64_t longest_ns;   /* and for no longer than this */
} clock_rules;

extern clock_rules thread_clock_rules;

/* Finds out what clocks cost here. */
void thread_clocks_prepare(void);
/* In the handler of a signal, which takes the mark away as if the core were lost: puts it back where the clocks were read
 * a moment ago. A core that was lost since, for less than that moment, is noticed when the CPU clock is asked next. */
void thread_clocks_interrupted(clock_readings *own, uint64_t now_ns);
/* Reads both clocks, whatever it takes. `asked_ns` is when the CPU clock was last asked, not reckoned. */
void thread_clocks_ask(clock_readings *own, uint64_t *asked_ns);

static inline uint64_t processor_ticks(void)
{
#ifdef __x86_64__
    return __rdtsc();
#else
    return 0;
#endif
}

/* Whether the thread's CPU clock has run as the wall clock has, as far as can be told. */
static inline bool thread_clocks_kept(const clock_readings *own, const clock_rules *rules, uint64_t now)
{
    return own->mark ? __atomic_load_n(own->mark, __ATOMIC_RELAXED) == own->kept
                     : now - own->wall_ns < rules->reckon_ns; /* very much if the clock has gone back */
}

/* Reads both clocks without asking the kernel. False where that will not do. With a mark, the thread is on the core on
 * which it was when the mark was made, whose counter does not go back.
 * What was read is handed back in registers: two values that were just stored take long to be loaded as one. */
static inline bool thread_clocks_reckon(clock_readings *own, const clock_rules *rules, clock_moment *read)
{
    uint64_t ticks = processor_ticks() - own->anchor_ticks;
    if (ticks >= own->ticks_until) {
        return false;
    }
    uint64_t now = own->anchor_ns + (ticks * own->ns_per_tick >> 32);
    if (!thread_clocks_kept(own, rules, now)) {
        return false;
    }
    *read = (clock_moment){now, now - own->behind_ns};
    __atomic_store_n(&own->wall_ns, now, __ATOMIC_RELAXED);
    return true;
}
