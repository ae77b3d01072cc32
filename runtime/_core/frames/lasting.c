#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/lasting.h"

#include <pthread.h>

#include "base/memory.h"
#include "frames/objects.h"
#include "frames/state.h"
#include "frames/threads.h"

#define CAPSULE "scalana.runtime._core.lasting"
/* Of a stack that grows, no more is taken to be one. */
#define LARGEST_STACK ((uintptr_t)8 << 20)

#if !SCALANA_FRAME_LAYOUT

void frames_note_lasting(void)
{
}

#else /* SCALANA_FRAME_LAYOUT */

static void add_c_stack(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
        uintptr_t high = (uintptr_t)low + size;
        uintptr_t here = (uintptr_t)&attributes & ~(PAGE - 1);
        uintptr_t floor = size > LARGEST_STACK ? high - LARGEST_STACK : (uintptr_t)low;
        if (here >= floor && here < high) {
            memory_add_lasting(here, high, floor);
        }
    }
    pthread_attr_destroy(&attributes);
}

#if PY_VERSION_HEX >= 0x030B0000
/* The interpreter gives later chunks back when calls return, but never the first one. */
static void add_data_stack(const PyThreadState *state)
{
    const _PyStackChunk *chunk = state->datastack_chunk;
    while (chunk && chunk->previous) {
        chunk = chunk->previous;
    }
    if (chunk) {
        memory_add_lasting((uintptr_t)chunk, (uintptr_t)chunk + chunk->size, 0);
    }
}
#endif

static void state_is_cleared(PyObject *capsule)
{
    (void)capsule;
    memory_forget_lasting();
}

/* The dictionary of a thread state goes before all else of it does. */
static bool tell_when_cleared(void)
{
    PyObject *dictionary = PyThreadState_GetDict();
    static int anything;
    PyObject *capsule = dictionary ? PyCapsule_New(&anything, CAPSULE, state_is_cleared) : NULL;
    bool told = capsule && PyDict_SetItemString(dictionary, CAPSULE, capsule) == 0;
    Py_XDECREF(capsule);
    PyErr_Clear();
    return told;
}

void frames_note_lasting(void)
{
    const PyThreadState *state = PyThreadState_Get();
    uintptr_t interpreter = frames_main_interpreter();
    if (!frames_are_usable || word_at(state, layout.thread_interp) != interpreter || !tell_when_cleared()) {
        return;
    }
    memory_forget_lasting(); /* what was told of an earlier start */
    memory_add_lasting((uintptr_t)state, (uintptr_t)state + sizeof *state, 0);
    memory_add_lasting(interpreter, interpreter + sizeof(PyInterpreterState), 0);
    add_c_stack();
#if PY_VERSION_HEX >= 0x030B0000
    add_data_stack(state);
#endif
}

#endif /* SCALANA_FRAME_LAYOUT */
