/* A sample of a running thread as it was taken, on its way to the sampler. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RAW_STACK_BYTES 8192u /* no more of a stack is copied */

typedef struct {
    uint64_t time_ns;
    uint64_t cpu_ns;      /* about how much CPU time it stands for */
    uintptr_t pc, sp, fp;
    uint32_t path;        /* of the recorded call that it was in, where that was seen at once; else 0 */
    size_t asked, size;   /* bytes of its stack, from the stack pointer on: to be copied, and copied */
    const uint8_t *stack; /* valid until the next sample is read */
} raw_sample;
