/* The level that calls are thinned out to, by clocks of its own: EVENTS a second, of a process that runs for PART of the
 * time, for SECONDS. Prints the level at the end, and how many events were written. */
#include <stdio.h>
#include <stdlib.h>

#include "callers/rate.c"

static uint64_t wall_ns = 1, cpu_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    uint64_t ns = clock == CLOCK_PROCESS_CPUTIME_ID ? cpu_ns : wall_ns;
    *now = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 1;
    }
    double events = atof(argv[1]), part = atof(argv[2]), seconds = atof(argv[3]);
    uint64_t step = (uint64_t)(1e9 / events), all = (uint64_t)(events * seconds), kept = 0;
    call_rate_start(4000.0);
    for (uint64_t i = 0; i < all; i++) {
        wall_ns += step;
        cpu_ns += (uint64_t)((double)step * part);
        if (i % (UINT64_C(1) << call_rate_now.level) == 0) {
            call_rate_wrote(wall_ns, 1);
            kept++;
        } else if (wall_ns >= call_rate_now.look_ns) {
            call_rate_look(wall_ns);
        }
    }
    printf("%u %llu\n", call_rate_now.level, (unsigned long long)kept);
    return 0;
}
