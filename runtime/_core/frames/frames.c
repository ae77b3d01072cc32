#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/frames.h"

#include "frames/code.h"
#include "frames/objects.h"
#include "frames/other.h"
#include "frames/public.h"
#include "frames/stack.h"
#include "frames/state.h"
#include "frames/threads.h"

#if !SCALANA_FRAME_LAYOUT

bool frames_prepare(const char **why)
{
    *why = "this interpreter's frames have no known layout";
    return false;
}

uint32_t frames_path_of_self(path_cache *cache)
{
    (void)cache;
    return frames_public_path();
}

uint32_t frames_path_of_self_unlocked(path_cache *cache)
{
    (void)cache;
    return 0;
}

size_t frames_callers_of_self(frame_caller *callers, size_t capacity)
{
    (void)callers, (void)capacity;
    return 0;
}

#else /* SCALANA_FRAME_LAYOUT */

static bool prepared;
static const char *reason = "not looked at yet";

/* ---- self-test ---- */

/* Whether the walk agrees with what the interpreter itself says of the calling thread. */
static const char *disagreement(void)
{
    static frame_stack stack;
    frames_stack_of_self(&stack);
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    size_t at = 0;
    const char *why = NULL;
    while (frame && !why) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (at < INNERMOST) {
            if (at >= stack.count || stack.frames[at].code != (uintptr_t)code) {
                why = "frames are not laid out as they should be";
            }
#if PY_VERSION_HEX >= 0x030B0000
            else if (PyFrame_GetLasti(frame) != (int)stack.frames[at].lasti) {
                why = "instructions are not where they should be";
            }
#endif
        }
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
        at++;
    }
    Py_XDECREF(frame);
    if (!why && at < INNERMOST && stack.count != at) {
        why = "there are more frames than there should be";
    }
    return why;
}

bool frames_prepare(const char **why)
{
    if (!prepared) {
        reason = frames_fit() ? frames_threads_prepare() : "this interpreter's objects are larger than expected";
        reason = reason ? reason : disagreement();
        frames_are_usable = reason == NULL;
        prepared = true;
    }
    *why = reason;
    return frames_are_usable;
}

/* ---- own thread ---- */

uint32_t frames_path_of_self(path_cache *cache)
{
    if (!prepared) {
        const char *why;
        frames_prepare(&why);
    }
    if (!frames_are_usable) {
        return frames_public_path();
    }
    frame_stack stack;
    uint32_t path = 0;
    frames_stack_of_self(&stack);
    frames_intern(MEMORY_DIRECT, &stack, cache, &path);
    return path;
}

uint32_t frames_path_of_self_unlocked(path_cache *cache)
{
    frame_stack stack;
    uint32_t path = 0;
    const PyThreadState *state = PyGILState_GetThisThreadState();
    if (!prepared || !frames_are_usable || state == NULL) {
        return 0;
    }
    frames_stack_of_state(state, &stack);
    frames_intern(MEMORY_DIRECT, &stack, cache, &path);
    return path;
}

size_t frames_callers_of_self(frame_caller *callers, size_t capacity)
{
    const PyThreadState *state = PyGILState_GetThisThreadState();
    return prepared && frames_are_usable && state ? frames_callers_of_state(state, callers, capacity) : 0;
}

#endif /* SCALANA_FRAME_LAYOUT */
