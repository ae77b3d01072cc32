/* What reading frames begins with: whose frames are left out, and whether this interpreter's can be read at all. */
#define PY_SSIZE_T_CLEAN
#include "python_internals.h"

#include "frames_internal.h"

static char own_directory[4096];
static size_t own_directory_size;

void frames_set_own_directory(const char *directory)
{
    size_t size = strlen(directory);
    if (size > 0 && size + 2 < sizeof own_directory) {
        memcpy(own_directory, directory, size + 1);
        if (directory[size - 1] != '/') {
            own_directory[size++] = '/';
            own_directory[size] = 0;
        }
        own_directory_size = size;
    }
}

bool frames_file_is_own(const char *file, size_t size)
{
    return own_directory_size > 0 && size > own_directory_size && memcmp(file, own_directory, own_directory_size) == 0;
}

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

size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole)
{
    (void)access, (void)threads, (void)capacity;
    *whole = false;
    return 0;
}

bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache)
{
    (void)access, (void)thread, (void)stack, (void)cache;
    return false;
}

void frames_doubt(stack_hints *hints)
{
    (void)hints;
}

bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path)
{
    (void)access, (void)stack, (void)cache, (void)path;
    return false;
}

#else /* SCALANA_FRAME_LAYOUT */

static bool prepared, usable;
static const char *reason = "not looked at yet";

bool frames_usable(void)
{
    return usable;
}

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
        usable = reason == NULL;
        prepared = true;
    }
    *why = reason;
    return usable;
}

/* ---- own thread ---- */

uint32_t frames_path_of_self(path_cache *cache)
{
    if (!prepared) {
        const char *why;
        frames_prepare(&why);
    }
    if (!usable) {
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
    if (!prepared || !usable || state == NULL) {
        return 0;
    }
    frames_stack_of_state(state, &stack);
    frames_intern(MEMORY_DIRECT, &stack, cache, &path);
    return path;
}

size_t frames_callers_of_self(frame_caller *callers, size_t capacity)
{
    const PyThreadState *state = PyGILState_GetThisThreadState();
    return prepared && usable && state ? frames_callers_of_state(state, callers, capacity) : 0;
}

#endif /* SCALANA_FRAME_LAYOUT */
