/* Frames and code objects of the interpreter as they lie in memory, and what is made of them. Comes after
 * python_internals.h. */
#pragma once

#include <string.h>

#include "frames/layout.h"
#include "frames/types.h"

#if SCALANA_FRAME_LAYOUT

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

typedef struct {
    uintptr_t code, globals, instruction;
    int32_t index;
    uint8_t owner;
} raw_frame;

/* False when it is no code object. */
static inline bool shape_of(const uint8_t *code, code_shape *shape)
{
    *shape = (code_shape){0};
    if (!layout.instruction_is_index) {
        shape->length = (int64_t)word_at(code, offsetof(PyVarObject, ob_size)) * 2;
        shape->first = 2 * (int64_t)int_at(code, layout.code_first_traceable);
    }
    return frames_fingerprint(code, &shape->fingerprint);
}

/* Offset of the instruction; false when the frame is not (yet, or any more) that of a running function, which
 * `damaged` tells from one that cannot be. */
static inline bool instruction_of(const raw_frame *frame, const code_shape *code, uint32_t *lasti, bool *damaged)
{
    *damaged = false;
    if (layout.instruction_is_index) {
        *damaged = frame->index < -1 || frame->index > (1 << 28);
        *lasti = frame->index > 0 ? (uint32_t)frame->index * 2 : 0;
        return !*damaged;
    }
    int64_t offset = (int64_t)(frame->instruction - (frame->code + layout.code_body));
    if (offset < -2 || offset >= code->length || (offset & 1)) {
        *damaged = true;
        return false;
    }
    if (frame->owner != layout.owner_generator && offset < code->first) {
        return false; /* still being set up: the interpreter does not show such frames either */
    }
    *lasti = offset > 0 ? (uint32_t)offset : 0;
    return true;
}

/* Where the next frame goes: the innermost in order, of the others the last FRAMES_OUTERMOST in a ring. */
static inline size_t ring_place(size_t seen)
{
    return seen < INNERMOST ? seen : INNERMOST + (seen - INNERMOST) % FRAMES_OUTERMOST;
}

static inline raw_frame raw_frame_at(const uint8_t *frame)
{
    raw_frame raw = {.code = word_at(frame, layout.frame_code) & ~layout.code_tag_mask,
                     .globals = word_at(frame, layout.frame_globals)};
    if (layout.instruction_is_index) {
        raw.index = int_at(frame, layout.frame_instruction);
    } else {
        raw.instruction = word_at(frame, layout.frame_instruction);
    }
    if (layout.frame_owner != FRAMES_NONE) {
        raw.owner = frame[layout.frame_owner];
    }
    return raw;
}

#endif /* SCALANA_FRAME_LAYOUT */
