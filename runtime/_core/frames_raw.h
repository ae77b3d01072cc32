/* One frame of an interpreter, as it lies in memory, and what is made of it. Comes after frames_internal.h. */
#ifndef SCALANA_FRAMES_RAW_H
#define SCALANA_FRAMES_RAW_H

#if SCALANA_FRAME_LAYOUT

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
#endif
