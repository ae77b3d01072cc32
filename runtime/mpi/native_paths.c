#include "native_paths.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "modules.h"
#include "recorder.h"

/* Where a code stands for a module, this is its "minor version of Python". */
#define NATIVE_MODULE 1u

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

call_site *call_site_unwound(call_cache *cache, uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    call_site *site = call_site_at(cache, pc, sp);
    uint64_t generation = recorder_generation();
    unwind_frame frames[UNWIND_MAX];
    /* On a stack that is not the thread's (a coroutine's) nothing is known of its end: words are read with guards. */
    size_t size = sp < cache->stack_high && cache->stack_high - sp < (UINT64_C(1) << 30) ? cache->stack_high - sp : 0;
    const unwind_stack stack = {sp, size, (const uint8_t *)sp};
    size_t count = unwind((unwind_registers){pc - 1, sp, fp}, &stack, frames, UNWIND_MAX);
    site->path = native_path(frames, count);
    site->generation = generation;
    site->pc = 0;
    site->sum = NULL;
    site->count = 0;
    for (size_t i = 1; i < count && site->count < CALL_SLOTS && size > 0; i++) {
        uintptr_t slot = frames[i].slot;
        if (slot >= sp && slot <= cache->stack_high - sizeof slot) {
            site->above[site->count].slot = slot;
            site->above[site->count++].value = *(const uintptr_t *)slot;
        }
    }
    if (size > 0 && site->path) {
        site->pc = pc;
        site->sp = sp;
    }
    return site;
}
