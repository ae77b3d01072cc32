#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "module/described.h"

#include <stdio.h>

#include "frames/layout.h"
#include "frames/state.h"
#include "frames/threads.h"

/* Before 3.11, frames have no table of exceptions; since 3.14, a lock that is waited for has no address of its own. */
#if SCALANA_FRAME_LAYOUT && PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000

PyObject *described_interpreter(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    const struct {
        const char *name;
        size_t number;
    } rows[] = {
        {"minor", layout.minor},
        {"interpreter", frames_main_interpreter()},
        {"interp_head", layout.interp_head},
        {"thread_next", layout.thread_next},
        {"thread_native_id", layout.thread_native_id},
        {"thread_ident", layout.thread_pthread},
        {"thread_frame", layout.thread_frame},
        {"cframe_frame", layout.cframe_frame == FRAMES_NONE ? 0 : layout.cframe_frame + 1u}, /* 0: there is none */
        {"frame_code", layout.frame_code},
        {"frame_previous", layout.frame_previous},
        {"frame_globals", layout.frame_globals},
        {"frame_instruction", layout.frame_instruction},
        {"frame_owner", layout.frame_owner},
        {"frame_slots", offsetof(_PyInterpreterFrame, localsplus)},
        {"owner_generator", layout.owner_generator},
        {"owner_interpreter", layout.owner_interpreter},
        {"code_first_line", layout.code_first_line},
        {"code_file", layout.code_file},
        {"code_name", layout.code_qualname},
        {"code_lines", layout.code_table},
        {"code_exceptions", offsetof(PyCodeObject, co_exceptiontable)},
        {"code_locals", offsetof(PyCodeObject, co_nlocalsplus)},
        {"code_local_names", offsetof(PyCodeObject, co_localsplusnames)},
        {"code_body", layout.code_body},
        {"code_first_traceable", layout.code_first_traceable},
        {"text_ascii", sizeof(PyASCIIObject)},
        {"text_other", sizeof(PyCompactUnicodeObject)},
        {"type_keys", offsetof(PyHeapTypeObject, ht_cached_keys)},
    };
    char text[1024];
    size_t size = 0;
    for (size_t i = 0; frames_are_usable && i < sizeof rows / sizeof *rows && size < sizeof text; i++) {
        int more = snprintf(text + size, sizeof text - size, "%s%s=%zu", i ? " " : "", rows[i].name, rows[i].number);
        size += more > 0 ? (size_t)more : 0;
    }
    return PyUnicode_FromStringAndSize(text, size < sizeof text ? (Py_ssize_t)size : 0);
}

#else

PyObject *described_interpreter(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyUnicode_FromString("");
}

#endif
