/* Takes recording out of the processes of an MPI job and puts it back, in turns: what it costs this very process.
 *
 * Compiled into the preloaded library by program_overhead.py. A turn is so many windows of as many calls of one function of
 * MPI, so that the windows of all ranks, and the work in them, are the same. At the end of each turn, a line goes to
 * SCALANA_TURNS_FILE-<pid>: what was recorded, then CPU seconds of the process and wall seconds, window by window.
 *
 * Samples are not begun anew in each turn, for a sampler that has just begun costs more than one that knows its threads:
 * the kernel's events and the timers of threads are switched off, and the sampler's thread is held up where it would read
 * what they gave. */
#include <dirent.h>
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/state.h"

enum { CALLS = 1, SAMPLES = 2 };
#define MOST_FUNCTIONS 1024
#define MOST_WINDOWS 4096
#define MOST_TIMERS 256

extern const char *const agent_names[];
extern void *agent_slots[];
extern const unsigned agent_slot_count;
__attribute__((visibility("hidden"))) void *agent_resolve(unsigned slot);

/* What the marker's slot leads to: counts the call, and goes on to where the slot led before. */
__attribute__((visibility("hidden"))) void turns_entry(void);
__attribute__((visibility("hidden"))) void *turns_target;
__attribute__((visibility("hidden"), used)) void turns_tick(void);
__asm__(".text\n"
        ".hidden turns_entry\n"
        ".type turns_entry, @function\n"
        "turns_entry:\n"
        "    pushq %rdi\n    pushq %rsi\n    pushq %rdx\n    pushq %rcx\n    pushq %r8\n    pushq %r9\n"
        "    subq $8, %rsp\n"
        "    call turns_tick\n"
        "    addq $8, %rsp\n"
        "    popq %r9\n    popq %r8\n    popq %rcx\n    popq %rdx\n    popq %rsi\n    popq %rdi\n"
        "    jmp *turns_target(%rip)\n");

static unsigned marker, states[16], state_count, now_on, number;
static unsigned long calls, window_calls, windows, warm_windows;
static void *recorded[MOST_FUNCTIONS], *plain[MOST_FUNCTIONS];
static FILE *file;
static struct {
    double cpu_s, wall_s;
} readings[MOST_WINDOWS + 1];
static uint64_t seed = 1;

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- holding the sampler up ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static const sampler_native *real_source;
static sampler_native gated_source;

static size_t take_at_gate(pid_t tid, native_sample *samples, size_t capacity)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return real_source->take(tid, samples, capacity);
}

static void switch_events(unsigned long request)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char name[320], target[64];
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        if (strcmp(target, "anon_inode:[perf_event]") == 0) {
            ioctl(atoi(entry->d_name), request, 0);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

/* All timers of the process that signal one of its threads: a program's own of that kind would be among them. */
static void switch_timers(bool wanted)
{
    static struct itimerspec set[MOST_TIMERS];
    const struct itimerspec none = {{0, 0}, {0, 0}};
    FILE *list = fopen("/proc/self/timers", "re");
    char line[256];
    int id = -1;
    while (list && fgets(line, sizeof line, list)) {
        if (sscanf(line, "ID: %d", &id) == 1 || strncmp(line, "notify: signal/tid", 18) != 0 || id >= MOST_TIMERS) {
            continue;
        }
        if (wanted) {
            syscall(SYS_timer_settime, id, 0, &set[id], NULL);
        } else {
            syscall(SYS_timer_settime, id, 0, &none, &set[id]);
        }
    }
    if (list) {
        fclose(list);
    }
}

static void sample(bool wanted)
{
    if (real_source == NULL) {
        real_source = native_source;
        gated_source = *real_source;
        gated_source.take = take_at_gate;
        sampler_set_native(&gated_source);
    }
    if (wanted) {
        switch_events(PERF_EVENT_IOC_ENABLE);
        switch_timers(true);
        pthread_mutex_unlock(&gate);
    } else {
        pthread_mutex_lock(&gate);
        switch_events(PERF_EVENT_IOC_DISABLE);
        switch_timers(false);
    }
}

/* Whoever waits for the sampler to end must not wait for good. */
static void open_gate(void)
{
    if ((now_on & SAMPLES) == 0) {
        pthread_mutex_unlock(&gate);
    }
}

static void record(unsigned what)
{
    if ((what ^ now_on) & SAMPLES) {
        sample(what & SAMPLES);
    }
    for (unsigned i = 0; i < agent_slot_count && i < MOST_FUNCTIONS; i++) {
        void *target = what & CALLS ? recorded[i] : plain[i];
        *(i == marker ? &turns_target : &agent_slots[i]) = target;
    }
    now_on = what;
}

/* The same order on all ranks: each round has every state once, in an order of its own. */
static unsigned next_state(void)
{
    static unsigned order[16];
    if (number % state_count == 0) {
        for (unsigned i = 0; i < state_count; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            unsigned other = (unsigned)(seed >> 33) % (i + 1);
            order[i] = order[other];
            order[other] = i;
        }
    }
    return order[number++ % state_count];
}

static void write_turn(unsigned state)
{
    fprintf(file, "%u", state);
    for (unsigned long i = warm_windows; i < windows; i++) {
        fprintf(file, " %.6f %.6f", readings[i + 1].cpu_s - readings[i].cpu_s,
                readings[i + 1].wall_s - readings[i].wall_s);
    }
    fprintf(file, "\n");
    fflush(file);
}

void turns_tick(void)
{
    static unsigned state;
    unsigned long window = calls / window_calls;
    if (calls++ % window_calls) {
        return;
    }
    readings[window].cpu_s = cpu_s();
    readings[window].wall_s = wall_s();
    if (window == windows) {
        if (number) {
            write_turn(state);
        } else {
            atexit(open_gate); /* not earlier: it would come after the library's own end */
        }
        state = next_state();
        record(states[state]);
        calls = 0;
    }
}

__attribute__((constructor)) static void prepare(void)
{
    const char *wanted = getenv("SCALANA_TURNS"), *name = getenv("SCALANA_TURNS_FILE");
    char function[64], list[64], path[4096];
    if (wanted == NULL || name == NULL || dlsym(RTLD_DEFAULT, "PMPI_Init") == NULL ||
        sscanf(wanted, "%63s %lu %lu %lu %63s", function, &window_calls, &warm_windows, &windows, list) != 5 ||
        windows > MOST_WINDOWS) {
        return;
    }
    for (char *c = list; *c && state_count < 16; c++) {
        states[state_count++] = (unsigned)(*c - '0');
    }
    snprintf(path, sizeof path, "%s-%d", name, (int)getpid());
    file = fopen(path, "we");
    for (marker = 0; marker < agent_slot_count && strcmp(agent_names[marker], function) != 0; marker++) {
    }
    if (file == NULL || marker == agent_slot_count) {
        fprintf(stderr, "no turns: %s\n", file == NULL ? path : function);
        _exit(2);
    }
    for (unsigned i = 0; i < agent_slot_count && i < MOST_FUNCTIONS; i++) {
        agent_resolve(i);
        recorded[i] = agent_slots[i];
        plain[i] = dlsym(RTLD_NEXT, agent_names[i]);
    }
    turns_target = recorded[marker];
    agent_slots[marker] = (void *)turns_entry;
    now_on = CALLS | SAMPLES;
}
