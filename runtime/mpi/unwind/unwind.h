/* The call path of a thread from its registers and its stack, by unwind tables (.eh_frame) and frame pointers.
 *
 * Nothing here faults: tables are read with guarded reads, for their library may be unloaded meanwhile, and the stack
 * is a copy, or the caller's own, with bounds. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define UNWIND_MAX 256

typedef struct {
    uintptr_t pc, sp, fp; /* fp 0: not known */
} unwind_registers;

typedef struct {
    uintptr_t low;        /* address of the first byte */
    size_t size;
    const uint8_t *bytes; /* what was there when the registers were read */
} unwind_stack;

typedef struct {
    uintptr_t pc;   /* innermost: the instruction; others: inside of the call instruction */
    uintptr_t slot; /* where its return address lay in the stack, 0 for the innermost */
} unwind_frame;

/* Frames, innermost first. Returns how many; stops where the stack cannot be followed. One thread at a time. */
size_t unwind(unwind_registers at, const unwind_stack *stack, unwind_frame *frames, size_t capacity);
