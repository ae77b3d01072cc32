/* Steps of a program: where they come from, and the one that the process is in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where steps come from, the most telling first: the marks of a less telling source are ignored once a better one has
 * spoken. */
enum step_source { STEP_USER = 1, STEP_TRAINER = 2, STEP_OPTIMIZER = 3, STEP_SCHEDULE = 4, STEP_SOURCES };

/* How the spans of one step are thinned. */
typedef struct {
    int64_t number;
    uint32_t level; /* when it began */
    bool cut;       /* there was no room for all */
} step_level;

/* The step that the process is in. */
typedef struct {
    enum step_source source; /* 0 before the first mark */
    uint64_t start_ns, cpu_ns; /* of the thread that marked its beginning; 0 where it is not known when it began */
    pid_t tid;
    step_level now, before;
} step_state;
