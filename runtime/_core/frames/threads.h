/* The interpreter's list of threads, and the kernel's ids of them. */
#pragma once

#include "base/memory.h"
#include "frames/types.h"

/* Threads of the main interpreter, by guarded reads. Returns how many were found, at most `capacity`; `whole` says
 * whether the list was read to its end. */
size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole);

uintptr_t frames_main_interpreter(void);
/* Finds what the list of threads is read by; NULL, or why it cannot be. */
const char *frames_threads_prepare(void);
