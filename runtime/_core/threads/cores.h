/* On which cores the threads of this process run: CPU time by core, by looks a tenth of a second apart. Nothing is read,
 * or counted, before somebody asks for it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MOST_CORES 1024

/* Of one thread: the latest look at where it runs, and its CPU time by then. */
typedef struct {
    uint64_t look_ns, cpu_ns;
} core_look;

/* A thread has run, and used so much CPU time in all. */
void cores_look(core_look *latest, pid_t tid, uint64_t now, uint64_t cpu_ns);
/* CPU time by core since this was first called; returns one more than the last core with any. */
size_t cores_used(uint64_t cpu_ns[MOST_CORES]);
/* Nobody has asked in the child. */
void cores_after_fork(void);
