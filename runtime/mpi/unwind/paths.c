#include "unwind/paths.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "unwind/modules.h"

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

struct call_memory {
    call_history *history;
    uintptr_t stack_high;
    uint64_t generation; /* of the recording that the paths belong to */
    size_t used;         /* lines */
    call_site *buckets[CALL_BUCKETS];
    unsigned char *lines; /* sites, each on a line of its own; on the first one, that of a call that is not kept */
};

call_memory *call_memory_new(call_history *history)
{
    call_memory *memory = calloc(1, sizeof *memory);
    pthread_attr_t attributes;
    if (memory == NULL || (memory->lines = aligned_alloc(LINE_BYTES, (size_t)CALL_LINES * LINE_BYTES)) == NULL) {
        free(memory);
        return NULL;
    }
    memory->history = history;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *low;
        size_t size;
        if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
            memory->stack_high = (uintptr_t)low + size;
        }
        pthread_attr_destroy(&attributes);
    }
    return memory;
}

void call_memory_free(call_memory *memory)
{
    if (memory) {
        free(memory->lines);
        free(memory);
    }
}

static void forget_sites(call_memory *memory, uint64_t generation)
{
    memset(memory->buckets, 0, sizeof memory->buckets);
    memory->used = 1;
    memory->generation = generation;
    *memory->history = (call_history){NULL, NULL};
}

/* The return addresses above `sp`. */
static uint32_t read_above(const call_memory *memory, uintptr_t sp, const unwind_frame *frames, size_t count,
                           return_address above[CALL_FRAMES])
{
    uint32_t found = 0;
    uintptr_t last = sp;
    for (size_t i = 1; i < count && found < CALL_FRAMES; i++) {
        uintptr_t slot = frames[i].slot;
        if (slot >= last && slot <= memory->stack_high - sizeof slot && slot % sizeof slot == 0) {
            above[found++] = (return_address){*(const uintptr_t *)slot, slot - sp};
            last = slot;
        }
    }
    return found;
}

static call_site *new_site(call_memory *memory, uintptr_t pc, uintptr_t sp, uintptr_t fp, uint64_t generation)
{
    unwind_frame frames[UNWIND_MAX];
    return_address above[CALL_FRAMES];
    /* On a stack that is not the thread's (a coroutine's) nothing is known of its end: words are read with guards. */
    bool own = sp < memory->stack_high && memory->stack_high - sp < (UINT64_C(1) << 30) && sp % sizeof sp == 0;
    const unwind_stack stack = {sp, own ? memory->stack_high - sp : 0, (const uint8_t *)sp};
    size_t count = unwind((unwind_registers){pc - 1, sp, fp}, &stack, frames, UNWIND_MAX);
    uint32_t path = native_path(frames, count);
    if (!own || path == 0) {
        call_site *site = (call_site *)memory->lines;
        *site = (call_site){.path = path};
        return site;
    }
    uint32_t returns = read_above(memory, sp, frames, count, above);
    size_t lines = (sizeof(call_site) + returns * sizeof *above + LINE_BYTES - 1) / LINE_BYTES;
    if (memory->used + lines > CALL_LINES) {
        forget_sites(memory, generation);
    }
    call_site *site = (call_site *)(memory->lines + memory->used * LINE_BYTES);
    memory->used += lines;
    *site = (call_site){.pc = pc, .sp = sp, .path = path, .count = returns};
    memcpy(site->above, above, returns * sizeof *above);
    return site;
}

call_site *call_site_of(call_memory *memory, uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    uint64_t generation = recorder_generation();
    if (memory->generation != generation) {
        forget_sites(memory, generation);
    }
    uint64_t hash = (pc * UINT64_C(0x9E3779B97F4A7C15) >> 32) ^ (sp >> 4);
    call_site **bucket = &memory->buckets[hash & (CALL_BUCKETS - 1)], *site = *bucket;
    while (site && !call_site_is(site, pc, sp)) {
        site = site->next;
    }
    if (site == NULL) {
        site = new_site(memory, pc, sp, fp, generation);
        if (site->pc) {
            site->next = *bucket;
            *bucket = site;
        }
    }
    if (memory->history->latest) {
        memory->history->latest->follower = site;
    }
    return site;
}
