/* The frames of a thread that does not run meanwhile. */
#pragma once

#include "frames/types.h"

/* Frames of the calling thread, which holds the interpreter's lock. */
void frames_stack_of_self(frame_stack *stack);
void frames_stack_of_state(const void *thread_state, frame_stack *stack);
size_t frames_callers_of_state(const void *thread_state, frame_caller *callers, size_t capacity);
