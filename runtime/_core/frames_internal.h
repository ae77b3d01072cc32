/* What the modules that read frames share: the layout of this interpreter's objects, and each other's inner functions.
 * Comes after python_internals.h. */
#ifndef SCALANA_FRAMES_INTERNAL_H
#define SCALANA_FRAMES_INTERNAL_H

#include <string.h>
#include <unistd.h>

#include "frames.h"

/* frames.c */
/* Whether a file lies in the directory whose code is skipped. */
bool frames_file_is_own(const char *file, size_t size);
/* Whether the self-test has passed. */
bool frames_usable(void);

/* frames_public.c */
/* Call path of the calling thread, which holds the interpreter's lock, in the interpreter's own words. */
uint32_t frames_public_path(void);

#if SCALANA_FRAME_LAYOUT

#if PY_VERSION_HEX >= 0x030E0000
#include "frames_314.h"
#elif PY_VERSION_HEX >= 0x030D0000
#include "frames_313.h"
#elif PY_VERSION_HEX >= 0x030C0000
#include "frames_312.h"
#elif PY_VERSION_HEX >= 0x030B0000
#include "frames_311.h"
#else
#include "frames_310.h"
#endif

#define PAGE ((uintptr_t)4096)
/* Of a stack that is too deep, these are kept at the inner end. */
#define INNERMOST (FRAMES_MAX - FRAMES_OUTERMOST)

static inline uintptr_t word_at(const void *base, uint32_t offset)
{
    uintptr_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static inline int32_t int_at(const void *base, uint32_t offset)
{
    int32_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static inline bool plausible(uintptr_t pointer)
{
    return pointer >= PAGE && pointer % sizeof(void *) == 0;
}

/* Checks a copy of a code object and gives its fingerprint: what changes when another code object takes its address. */
static inline bool frames_fingerprint(const uint8_t *code, uint64_t *print)
{
    PyObject head;
    memcpy(&head, code, sizeof head);
    if (head.ob_type != &PyCode_Type) {
        return false;
    }
    /* Odd multipliers keep the fields apart; the products do not wait for each other. */
    uint64_t hash = (uint64_t)(uint32_t)int_at(code, layout.code_first_line) * UINT64_C(0x9E3779B97F4A7C15) +
                    word_at(code, layout.code_consts) * UINT64_C(0xC2B2AE3D27D4EB4F) +
                    word_at(code, layout.code_names) * UINT64_C(0x165667B19E3779F9) +
                    word_at(code, layout.code_file) * UINT64_C(0x85EBCA77C2B2AE63) +
                    word_at(code, layout.code_name) * UINT64_C(0x27D4EB2F165667C5) +
                    word_at(code, layout.code_qualname) * UINT64_C(0xFF51AFD7ED558CCD) +
                    word_at(code, layout.code_table) * UINT64_C(0xC4CEB9FE1A85EC53);
    if (layout.code_has_length) {
        hash += word_at(code, offsetof(PyVarObject, ob_size)) * UINT64_C(0xD6E8FEB86659FD93);
    }
    if (layout.code_version != FRAMES_NONE) {
        hash += (uint64_t)(uint32_t)int_at(code, layout.code_version) * UINT64_C(0xA0761D6478BD642F);
    }
    *print = hash;
    return true;
}

/* frames_stack.c */
/* Frames of the calling thread, which holds the interpreter's lock. */
void frames_stack_of_self(frame_stack *stack);
void frames_stack_of_state(const void *thread_state, frame_stack *stack);
size_t frames_callers_of_state(const void *thread_state, frame_caller *callers, size_t capacity);

/* frames_other.c */
/* The code object at this address is of a file. */
void frames_trust(stack_hints *hints, uintptr_t code);
/* Whether this interpreter's frames and code objects fit where they are read to. */
bool frames_fit(void);

/* frames_threads.c */
uintptr_t frames_main_interpreter(void);
/* Finds what the list of threads is read by; NULL, or why it cannot be. */
const char *frames_threads_prepare(void);

#endif
#endif
