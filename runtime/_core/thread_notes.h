/* What is known of a thread that makes calls. */
#ifndef SCALANA_THREAD_NOTES_H
#define SCALANA_THREAD_NOTES_H

#include <stdint.h>
#include <sys/types.h>

#include "frames.h"

typedef struct {
    uint64_t generation;
    uint64_t waiting; /* event of a call that ends with the thread's next wait */
    pid_t tid;
    uint32_t index;
    path_cache cache;
} thread_notes;

/* Of the calling thread in this recording; NULL when memory is short. */
thread_notes *own_notes(void);

#endif
