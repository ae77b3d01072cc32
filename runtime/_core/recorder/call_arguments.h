/* What is recorded of a communication call, its times left aside. */
#pragma once

#include <stdint.h>

typedef struct {
    int64_t peer, tag;
    uint64_t seq, nbytes, completes;
    uint32_t operation, group, flags;
    uint64_t unwritten_ns, unwritten_cpu_ns; /* in calls that were not written, since the thread's last that was */
} call_arguments;
