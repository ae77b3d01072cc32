#include "callers/rate.h"

#include <pthread.h>

#include "base/clocks.h"

/* Events cost time of a credit that fills up by itself: with as much as the process ran on its cores, of the time that
 * has passed. Where ranks share cores, an event takes more of what each of them gets. Who rests all the time has time to
 * spare: it gets no less than a quarter. A burst of calls is thus written whole. Each halving of what is left raises the
 * level by one, and it falls again when twice as much is there. */
#define CREDIT_NS UINT64_C(20000000000)
#define LEAST_PART 4u
#define LARGEST_LEVEL 20u
#define EVENTS_AT_ONCE 64u
#define LOOK_NS 20000000u

call_rate call_rate_now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t event_ns; /* what an event costs; 0: no limit */
static uint64_t written;  /* since the latest look */
static uint64_t looked_ns, looked_cpu_ns, credit_ns = CREDIT_NS;

void call_rate_start(double calls_per_second)
{
    pthread_mutex_init(&lock, NULL); /* a child of fork may have inherited it locked */
    event_ns = (uint64_t)(1e9 / calls_per_second);
    credit_ns = CREDIT_NS;
    written = looked_ns = 0;
    __atomic_store_n(&call_rate_now.level, 0, __ATOMIC_RELAXED);
}

/* What the credit gains while time passes of which a process ran for so long, on all of its cores. */
static uint64_t gain_ns(uint64_t passed_ns, uint64_t cpu_ns)
{
    uint64_t least_ns = passed_ns / LEAST_PART;
    return cpu_ns < least_ns ? least_ns : cpu_ns < passed_ns ? cpu_ns : passed_ns;
}

static void look(uint64_t now_ns)
{
    if (event_ns == 0 || pthread_mutex_trylock(&lock) != 0) {
        return;
    }
    uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID), gained = credit_ns;
    if (looked_ns && now_ns > looked_ns) {
        gained += gain_ns(now_ns - looked_ns, cpu_ns - looked_cpu_ns);
    }
    uint64_t spent = __atomic_exchange_n(&written, 0, __ATOMIC_RELAXED) * event_ns;
    credit_ns = gained < spent ? 0 : gained - spent < CREDIT_NS ? gained - spent : CREDIT_NS;
    uint32_t level = call_rate_now.level;
    while (level < LARGEST_LEVEL && credit_ns <= CREDIT_NS >> (level + 1)) {
        level++;
    }
    while (level > 0 && credit_ns >= CREDIT_NS >> (level - 1)) {
        level--;
    }
    looked_ns = now_ns;
    looked_cpu_ns = cpu_ns;
    __atomic_store_n(&call_rate_now.look_ns, now_ns + LOOK_NS, __ATOMIC_RELAXED);
    __atomic_store_n(&call_rate_now.level, level, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void call_rate_wrote(uint64_t now_ns, uint64_t events)
{
    if (__atomic_add_fetch(&written, events, __ATOMIC_RELAXED) >= EVENTS_AT_ONCE) {
        look(now_ns);
    }
}

void call_rate_look(uint64_t now_ns)
{
    look(now_ns);
}
