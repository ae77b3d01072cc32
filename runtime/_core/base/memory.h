/* Reads of this process' own memory that fail instead of faulting. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memory_access {
    MEMORY_DIRECT, /* plain loads: only for what cannot go away, as under the interpreter's lock */
    MEMORY_REMOTE, /* process_vm_readv on this process */
    MEMORY_FILE,   /* pread on /proc/self/mem, where a sandbox refuses the above */
    MEMORY_NONE
};

typedef struct {
    uintptr_t from;
    void *to;
    size_t size;
} memory_range;

#define MEMORY_MAX_RANGES 512

/* Whether all of `size` bytes lie from `low` up to `high`. They may begin at any number, as in a chain that breaks while it
 * is read: adding to the last ones would wrap around. */
static inline bool memory_holds(uintptr_t low, uintptr_t high, uintptr_t from, size_t size)
{
    return from >= low && from < high && size <= high - from;
}

/* The best guarded access that this process is allowed. */
enum memory_access memory_guarded_access(void);
bool memory_read(enum memory_access access, void *to, uintptr_t from, size_t size);
/* Reads ranges in order until one fails; returns how many were read whole. At most MEMORY_MAX_RANGES. */
size_t memory_read_ranges(enum memory_access access, const memory_range *ranges, size_t count);
/* Says that a range is mapped, and stays so until it is forgotten: guarded reads of it need not ask the kernel. Where it
 * is a stack that grows down to `floor`, what was read of it once stays as well; otherwise that is 0. */
void memory_add_lasting(uintptr_t low, uintptr_t high, uintptr_t floor);
/* Where the lasting range begins that holds this address; 0 when none does. */
uintptr_t memory_lasting_from(uintptr_t address);
/* Waits until nobody reads there any more. */
void memory_forget_lasting(void);
/* In the child after fork: /proc/self/mem of the parent is of no use. */
void memory_after_fork(void);
