#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/stack.h"

#include "frames/objects.h"

#if SCALANA_FRAME_LAYOUT

/* Turns the ring of the outermost frames so that they follow the innermost in order. */
static void finish_stack(frame_stack *stack, size_t seen)
{
    stack->cut = seen > FRAMES_MAX;
    stack->count = stack->cut ? FRAMES_MAX : seen;
    if (stack->cut) {
        frame_reference ring[FRAMES_OUTERMOST];
        size_t start = (seen - INNERMOST) % FRAMES_OUTERMOST;
        memcpy(ring, stack->frames + INNERMOST, sizeof ring);
        for (size_t i = 0; i < FRAMES_OUTERMOST; i++) {
            stack->frames[INNERMOST + i] = ring[(start + i) % FRAMES_OUTERMOST];
        }
    }
}

static uintptr_t current_frame_of(const uint8_t *state)
{
    uintptr_t frame = word_at(state, layout.thread_frame);
    if (layout.cframe_frame != FRAMES_NONE && frame) {
        frame = word_at((const uint8_t *)frame, layout.cframe_frame);
    }
    return frame;
}

void frames_stack_of_self(frame_stack *stack)
{
    frames_stack_of_state(PyThreadState_Get(), stack);
}

void frames_stack_of_state(const void *state, frame_stack *stack)
{
    size_t seen = 0;
    uintptr_t at = current_frame_of(state);
    while (at) {
        const uint8_t *frame = (const uint8_t *)at;
        raw_frame raw = raw_frame_at(frame);
        at = word_at(frame, layout.frame_previous);
        if (raw.owner >= layout.owner_interpreter && layout.frame_owner != FRAMES_NONE) {
            continue;
        }
        frame_reference *place = &stack->frames[ring_place(seen)];
        bool damaged;
        code_shape shape;
        if (!shape_of((const uint8_t *)raw.code, &shape) || !instruction_of(&raw, &shape, &place->lasti, &damaged)) {
            continue;
        }
        place->code = raw.code;
        place->fingerprint = shape.fingerprint;
        seen++;
    }
    finish_stack(stack, seen);
}

size_t frames_callers_of_state(const void *state, frame_caller *callers, size_t capacity)
{
    size_t count = 0;
    for (uintptr_t at = current_frame_of(state); at && count < capacity;) {
        const raw_frame raw = raw_frame_at((const uint8_t *)at);
        at = word_at((const uint8_t *)at, layout.frame_previous);
        if (layout.frame_owner == FRAMES_NONE || raw.owner < layout.owner_interpreter) {
            callers[count++] = (frame_caller){raw.code, raw.globals};
        }
    }
    return count;
}

#endif /* SCALANA_FRAME_LAYOUT */
