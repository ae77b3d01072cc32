/* What is known of a thread that makes calls. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "frames/types.h"

struct torch_group;

typedef struct {
    uint64_t generation;
    uint64_t waiting; /* event of a call that ends with the thread's next wait */
    const struct torch_group *any_source; /* that call is a receive from anybody in this group */
    uint64_t torch_call;                  /* scope of the call into C++ that the thread is in, see torch/posts.h */
    uint64_t backward;                    /* scope of its backward pass */
    int64_t graph_task;                   /* which that is */
    uint64_t read_ns, cpu_at_read_ns;     /* when its CPU clock was read last, and what it showed */
    pid_t tid;
    uint32_t index;
    path_cache cache;
} thread_notes;

/* Of the calling thread in this recording; NULL when memory is short. */
thread_notes *own_notes(void);
/* The same if the thread has any; made for none. */
thread_notes *kept_notes(void);

/* CPU time of the calling thread at `now_ns`, which is now. */
uint64_t own_cpu_at(thread_notes *own, uint64_t now_ns);
/* The same for a thread that has not rested since its clock was read last: if that is but microseconds ago the kernel,
 * which takes the longer part of them to answer, is not asked again. */
uint64_t own_cpu_near(thread_notes *own, uint64_t now_ns);
/* The same for as long as is said: by less than that a rest is taken for work, until the clock is read again. */
uint64_t own_cpu_within(thread_notes *own, uint64_t now_ns, uint64_t window_ns);
