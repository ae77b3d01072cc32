#include "sampler/moments.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA'14): as good as random, and the same in every process. */
static uint64_t scattered(uint64_t number)
{
    number += UINT64_C(0x9E3779B97F4A7C15);
    number = (number ^ number >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    number = (number ^ number >> 27) * UINT64_C(0x94D049BB133111EB);
    return number ^ number >> 31;
}

uint64_t moments_tick_after(uint64_t now_ns, uint64_t step_ns)
{
    uint64_t range = step_ns / 4, early = range / 2;
    uint64_t number = (now_ns + early) / step_ns + 1;
    return number * step_ns - early + (range ? scattered(number) % range : 0);
}

uint64_t moments_own_tick_after(uint64_t now_ns, uint64_t step_ns, uint32_t process)
{
    /* Parts of the golden section lie far from each other for numbers that follow each other, as those of ranks do. */
    uint64_t later = (uint64_t)(process * UINT32_C(2654435769)) * (step_ns >> 8) >> 24;
    return moments_tick_after(now_ns + later, step_ns) - later;
}
