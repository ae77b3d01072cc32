/* The sampler's view of Python frames, in a library that knows no Python: there are none. */
#include "frames/code.h"
#include "frames/other.h"
#include "frames/threads.h"

size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole)
{
    (void)access, (void)threads, (void)capacity;
    *whole = false;
    return 0;
}

bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache)
{
    (void)access, (void)thread, (void)cache;
    stack->count = 0;
    return false;
}

bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path)
{
    (void)access, (void)stack, (void)cache;
    *path = 0;
    return false;
}

void frames_doubt(stack_hints *hints)
{
    (void)hints;
}
