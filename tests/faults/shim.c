/* Libraries that others preload: one that makes the time of day jump, and counts what is opened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static long calls;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) {
        long count = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
        now->tv_sec += count % 3 == 1 ? 7200 : count % 3 == 2 ? -7200 : 0;
    }
    return result;
}

void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (real == NULL) {
        real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    }
    return real(size);
}
