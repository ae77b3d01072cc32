/* What is known of a thread that makes calls. */
#ifndef SCALANA_THREAD_NOTES_H
#define SCALANA_THREAD_NOTES_H

#include <stdint.h>
#include <sys/types.h>

#include "frames.h"

struct torch_group;

typedef struct {
    uint64_t generation;
    uint64_t waiting; /* event of a call that ends with the thread's next wait */
    const struct torch_group *any_source; /* that call is a receive from anybody in this group */
    uint64_t torch_call;                  /* scope of the call into C++ that the thread is in, see torch_posts.h */
    uint64_t backward;                    /* scope of its backward pass */
    int64_t graph_task;                   /* which that is */
    pid_t tid;
    uint32_t index;
    path_cache cache;
} thread_notes;

/* Of the calling thread in this recording; NULL when memory is short. */
thread_notes *own_notes(void);

#endif
