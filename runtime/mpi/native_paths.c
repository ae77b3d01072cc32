#include "native_paths.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "modules.h"
#include "recorder.h"

#define CALLS 256u /* power of two */
#define SLOTS 40u
/* Where a code stands for a module, this is its "minor version of Python". */
#define NATIVE_MODULE 1u

typedef struct {
    uintptr_t pc, sp;
    uint64_t generation;
    uint32_t path;
    uint32_t count;
    uintptr_t slot[SLOTS], value[SLOTS];
} known_call;

struct call_cache {
    uintptr_t stack_high;
    known_call calls[CALLS];
};

uint32_t native_path(const unwind_frame *frames, size_t count)
{
    uint64_t generation = recorder_generation();
    uint32_t path = 0;
    while (count > 0) {
        module_row module;
        count--;
        if (!module_at(frames[count].pc, &module)) {
            continue;
        }
        recorder_lock();
        if (!recorder_is_on()) {
            recorder_unlock();
            return 0;
        }
        if (module.code == 0 || module.generation != generation) {
            const code_content_view code = {.file = module.path,
                                            .file_size = strlen(module.path),
                                            .name = module.build_id,
                                            .name_size = strlen(module.build_id),
                                            .minor = NATIVE_MODULE};
            module.code = recorder_code_locked(&code);
            module.generation = 0;
        }
        path = recorder_path_locked(path, module.code, (uint32_t)(frames[count].pc - module.base));
        recorder_unlock();
        if (module.generation == 0) {
            module_set_code(module.base, module.code, generation);
        }
    }
    return path;
}

call_cache *call_cache_new(void)
{
    call_cache *cache = calloc(1, sizeof *cache);
    pthread_attr_t attributes;
    if (cache && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *low;
        size_t size;
        if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
            cache->stack_high = (uintptr_t)low + size;
        }
        pthread_attr_destroy(&attributes);
    }
    return cache;
}

static bool is_same_call(const known_call *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        if (*(const volatile uintptr_t *)call->slot[i] != call->value[i]) {
            return false;
        }
    }
    return true;
}

uint32_t native_path_of_call(call_cache *cache, uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    known_call *call = &cache->calls[((pc * UINT64_C(0x9E3779B97F4A7C15) >> 32) ^ (sp >> 4)) & (CALLS - 1)];
    uint64_t generation = recorder_generation();
    if (call->pc == pc && call->sp == sp && call->generation == generation && is_same_call(call)) {
        return call->path;
    }
    unwind_frame frames[UNWIND_MAX];
    /* On a stack that is not the thread's (a coroutine's) nothing is known of its end: words are read with guards. */
    size_t size = sp < cache->stack_high && cache->stack_high - sp < (UINT64_C(1) << 30) ? cache->stack_high - sp : 0;
    const unwind_stack stack = {sp, size, (const uint8_t *)sp};
    size_t count = unwind((unwind_registers){pc - 1, sp, fp}, &stack, frames, UNWIND_MAX);
    uint32_t path = native_path(frames, count);
    call->pc = 0;
    call->count = 0;
    for (size_t i = 1; i < count && call->count < SLOTS && size > 0; i++) {
        uintptr_t slot = frames[i].slot;
        if (slot >= sp && slot <= cache->stack_high - sizeof slot) {
            call->slot[call->count] = slot;
            call->value[call->count++] = *(const uintptr_t *)slot;
        }
    }
    if (size > 0 && path) {
        call->pc = pc;
        call->sp = sp;
        call->generation = generation;
        call->path = path;
    }
    return path;
}
