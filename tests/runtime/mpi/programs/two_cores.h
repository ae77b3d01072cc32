/* CPU time of the calling thread, and a process that stays on the first two cores that it may use. For _GNU_SOURCE. */
#include <sched.h>
#include <time.h>

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void stay_on_two_cores(void)
{
    cpu_set_t all, two;
    CPU_ZERO(&two);
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &two);
        }
    }
    sched_setaffinity(0, sizeof two, &two);
}
