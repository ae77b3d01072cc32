#include "callers/clocks.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#include <sys/rseq.h>
#define HAS_RSEQ
#endif

#include "base/clocks.h"

#define CPU_CLOCK_SHARE 300u /* the CPU clock may cost one in so many ns */
#define SHORTEST_NS 20000u
#define LONGEST_NS 400000u
#define RECKONED_AT_MOST 4u /* times what is reckoned at once */
#define ANCHOR_NS 20000000u
#define SHORTEST_RATE_NS 5000000u
#define KEPT_NS 20000000u
#define MOMENT_NS 200000u

clock_rules thread_clock_rules;
static bool by_counter;

#ifdef __x86_64__
/* Whether the counter runs at one rate on all cores, in all states, and is cheap to read here. */
static bool counter_is_good(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || !(d & 1u << 8)) {
        return false;
    }
    uint64_t counter = UINT64_MAX, clock = UINT64_MAX; /* the least of several: another program may come between */
    for (int round = 0; round < 8; round++) {
        uint64_t begin = clock_wall_ns();
        for (int i = 0; i < 64; i++) {
            (void)*(volatile uint64_t *)&(uint64_t){processor_ticks()};
        }
        uint64_t middle = clock_wall_ns();
        for (int i = 0; i < 64; i++) {
            clock_wall_ns();
        }
        uint64_t end = clock_wall_ns();
        counter = middle - begin < counter ? middle - begin : counter;
        clock = end - middle < clock ? end - middle : clock;
    }
    return counter * 5 < clock * 4;
}
#else
static bool counter_is_good(void)
{
    return false;
}
#endif

#ifdef HAS_RSEQ
/* A sequence that no thread ever runs: the kernel takes the mark away from whoever is outside of it. */
static const uint32_t signature[2] = {RSEQ_SIG, 0}; /* stands before where it would be aborted to */
static const uint32_t sequence = 0;
static struct rseq_cs kept_descriptor;

/* Where the calling thread's mark is; NULL where the C library has not told the kernel about it. */
static uint64_t *own_mark(void)
{
    if (__rseq_size == 0) {
        return NULL;
    }
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return (int32_t)__atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) >= 0 ? (uint64_t *)&area->rseq_cs : NULL;
}

/* Tries out whether the kernel clears the mark of a thread that sleeps. */
static void prepare_mark(void)
{
    uint64_t *mark = own_mark();
    kept_descriptor = (struct rseq_cs){
        .start_ip = (uintptr_t)&sequence, .post_commit_offset = 1, .abort_ip = (uintptr_t)&signature[1]};
    if (mark) {
        const struct timespec moment = {0, 1};
        __atomic_store_n(mark, (uintptr_t)&kept_descriptor, __ATOMIC_RELAXED);
        nanosleep(&moment, NULL);
        if (__atomic_load_n(mark, __ATOMIC_RELAXED) == 0) {
            thread_clock_rules.kept_mark = (uintptr_t)&kept_descriptor;
        }
        __atomic_store_n(mark, 0, __ATOMIC_RELAXED);
    }
}
#else
static uint64_t *own_mark(void)
{
    return NULL;
}

static void prepare_mark(void)
{
}
#endif

void thread_clocks_prepare(void)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_wall_ns();
        clock_own_cpu_ns();
        uint64_t cost = clock_wall_ns() - before;
        best = cost < best ? cost : best;
    }
    by_counter = counter_is_good();
    uint64_t reckon = best * CPU_CLOCK_SHARE;
    reckon = reckon < SHORTEST_NS ? SHORTEST_NS : reckon > LONGEST_NS ? LONGEST_NS : reckon;
    thread_clock_rules.reckon_ns = reckon;
    thread_clock_rules.longest_ns = reckon * RECKONED_AT_MOST;
    thread_clock_rules.kept_ns = KEPT_NS;
    prepare_mark();
}

/* The wall clock proper, with which the thread's counter is set anew when that was long ago. */
static uint64_t wall_now(clock_readings *own)
{
    uint64_t now = clock_wall_ns(), ticks = processor_ticks();
    if (!by_counter || (own->anchor_ns && now - own->anchor_ns < SHORTEST_RATE_NS)) {
        return now; /* too soon to tell the rate */
    }
    if (own->anchor_ns && now - own->anchor_ns < UINT64_C(100) * ANCHOR_NS) {
        double rate = (double)(now - own->anchor_ns) / (double)(ticks - own->anchor_ticks);
        __atomic_store_n(&thread_clock_rules.ns_per_tick, (uint64_t)(rate * 0x1p32), __ATOMIC_RELAXED);
        __atomic_store_n(&thread_clock_rules.most_ticks, (uint64_t)(ANCHOR_NS / rate), __ATOMIC_RELAXED);
    }
    own->anchor_ns = now;
    own->anchor_ticks = ticks;
    own->ns_per_tick = __atomic_load_n(&thread_clock_rules.ns_per_tick, __ATOMIC_RELAXED);
    return now;
}

/* How long from its anchor on the clocks may be read without asking the kernel, in ticks. */
static uint64_t ticks_until(const clock_readings *own, const clock_rules *rules, uint64_t asked_ns)
{
    uint64_t until_ns = asked_ns + (own->mark ? rules->kept_ns : rules->longest_ns);
    if (own->ns_per_tick == 0 || until_ns <= own->anchor_ns) {
        return 0;
    }
    uint64_t most = __atomic_load_n(&rules->most_ticks, __ATOMIC_RELAXED);
    uint64_t reckoned = ((until_ns - own->anchor_ns) << 32) / own->ns_per_tick; /* of some 20 ms */
    return reckoned < most ? reckoned : most;
}

void thread_clocks_interrupted(clock_readings *own, uint64_t now_ns)
{
    if (own->mark && now_ns - own->wall_ns < MOMENT_NS) {
        __atomic_store_n(own->mark, own->kept, __ATOMIC_RELAXED);
    }
}

void thread_clocks_ask(clock_readings *own, uint64_t *asked_ns)
{
    const clock_rules *rules = &thread_clock_rules;
    uint64_t ticks = processor_ticks() - own->anchor_ticks;
    bool trusted = own->ns_per_tick && ticks < __atomic_load_n(&rules->most_ticks, __ATOMIC_RELAXED);
    uint64_t now = trusted ? own->anchor_ns + (ticks * own->ns_per_tick >> 32) : wall_now(own);
    if (now < own->wall_ns) { /* the counter was fast, or is that of a core behind: go on from there, not back */
        own->anchor_ns += own->wall_ns - now;
        now = own->wall_ns;
    }
    bool recently = now - *asked_ns < (own->mark ? rules->kept_ns : rules->longest_ns);
    if (!recently || !thread_clocks_kept(own, rules, now)) {
        uint64_t last = own->wall_ns - own->behind_ns;
        uint64_t *mark = rules->kept_mark ? own_mark() : NULL;
        if (mark) { /* first: a core that is lost from here on is noticed at the next look */
            __atomic_store_n(mark, rules->kept_mark, __ATOMIC_RELAXED);
        }
        own->mark = mark;
        own->kept = rules->kept_mark;
        uint64_t cpu = clock_own_cpu_ns();
        own->behind_ns = now - (cpu < last ? last : cpu); /* what was reckoned may be more than there was */
        *asked_ns = now;
    }
    __atomic_store_n(&own->wall_ns, now, __ATOMIC_RELAXED);
    own->ticks_until = ticks_until(own, rules, *asked_ns);
}
