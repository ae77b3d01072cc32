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
/* Where the interpreter's objects lie, for those who read them from another process: names and numbers, "name=number"
 * with a space between. Returns the size; 0 where this version has no layout for it. */
size_t frames_describe(char *text, size_t capacity);
