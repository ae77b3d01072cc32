/* Where the fields of the interpreter's objects lie: one table, with a column for each version of CPython, taken from that
 * version's own headers. Comes after python_internals.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether there is a column for this interpreter. */
#ifndef SCALANA_FRAME_LAYOUT
#if PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED) &&                        \
    !defined(Py_STACKREF_DEBUG) && !defined(PYPY_VERSION)
#define SCALANA_FRAME_LAYOUT 1
#else
#define SCALANA_FRAME_LAYOUT 0
#endif
#endif

#define FRAMES_NONE UINT32_MAX /* this version has no such field */

typedef struct {
    uint32_t minor;
    /* PyInterpreterState and PyThreadState */
    uint32_t interp_head;      /* first thread state */
    uint32_t interp_made;      /* how many there have been, the next one's id */
    uint32_t thread_next, thread_interp;
    uint32_t thread_native_id; /* kernel id; FRAMES_NONE: only thread_pthread */
    uint32_t thread_pthread;   /* pthread_t */
    uint32_t thread_frame;     /* current frame, or the record that holds it */
    uint32_t cframe_frame;     /* offset in that record, FRAMES_NONE when there is none */
    /* frame */
    uint32_t frame_code, frame_previous, frame_globals, frame_instruction, frame_owner;
    uint32_t frame_state;         /* a byte: 0 executing; frames that are objects, dead ones too, have one */
    uint32_t frame_size;          /* bytes that cover all of these */
    bool frame_is_object;         /* on the heap, with a type */
    bool instruction_is_index;    /* an int of code units, not a pointer */
    uint8_t owner_generator, owner_interpreter; /* from owner_interpreter on it is no frame of a Python function */
    uintptr_t code_tag_mask;      /* tag bits in frame_code */
    /* code object */
    uint32_t code_consts, code_names, code_first_line, code_file, code_name, code_qualname, code_table;
    uint32_t code_version, code_body, code_first_traceable;
    uint32_t code_size;           /* bytes that cover all of these */
    bool code_has_length;         /* ob_size counts code units */
} frame_layout;

/* Largest code_size of any version. */
#define FRAMES_CODE_SIZE 256


#if SCALANA_FRAME_LAYOUT

/* Picks the column of this version of CPython. */
#if PY_VERSION_HEX >= 0x030E0000
#define BY(v310, v311, v312, v313, v314) v314
#elif PY_VERSION_HEX >= 0x030D0000
#define BY(v310, v311, v312, v313, v314) v313
#elif PY_VERSION_HEX >= 0x030C0000
#define BY(v310, v311, v312, v313, v314) v312
#elif PY_VERSION_HEX >= 0x030B0000
#define BY(v310, v311, v312, v313, v314) v311
#else
#define BY(v310, v311, v312, v313, v314) v310
#endif
#define SINCE_311(before, since) BY(before, since, since, since, since)
#define SINCE_312(before, since) BY(before, before, since, since, since)

#define INTERPRETER(field) offsetof(PyInterpreterState, field)
#define THREAD(field) offsetof(PyThreadState, field)
#define OBJECT(field) offsetof(PyFrameObject, field)
#define FRAME(field) offsetof(_PyInterpreterFrame, field)
#define CODE(field) offsetof(PyCodeObject, field)

/* 3.10: frames are objects on the heap, f_lasti counts code units.
 * 3.11: frames on a data stack, found through the C frame of the evaluation loop.
 * 3.12: code versions, and frames of the evaluation loop itself.
 * 3.13: the thread state holds the current frame, which knows the instruction that runs.
 * 3.14: tagged references to code objects. */
static const frame_layout layout = {
    .minor = BY(10, 11, 12, 13, 14),
    .interp_head = SINCE_311(INTERPRETER(tstate_head), INTERPRETER(threads.head)),
    .interp_made = SINCE_311(INTERPRETER(tstate_next_unique_id), INTERPRETER(threads.next_unique_id)),
    .thread_next = THREAD(next),
    .thread_interp = THREAD(interp),
    .thread_native_id = SINCE_311(FRAMES_NONE, THREAD(native_thread_id)),
    .thread_pthread = THREAD(thread_id),
    .thread_frame = BY(THREAD(frame), THREAD(cframe), THREAD(cframe), THREAD(current_frame), THREAD(current_frame)),
    .cframe_frame = BY(FRAMES_NONE, offsetof(_PyCFrame, current_frame), offsetof(_PyCFrame, current_frame),
                       FRAMES_NONE, FRAMES_NONE),
    .frame_code = BY(OBJECT(f_code), FRAME(f_code), FRAME(f_code), FRAME(f_executable), FRAME(f_executable)),
    .frame_previous = SINCE_311(OBJECT(f_back), FRAME(previous)),
    .frame_globals = SINCE_311(OBJECT(f_globals), FRAME(f_globals)),
    .frame_instruction = BY(OBJECT(f_lasti), FRAME(prev_instr), FRAME(prev_instr), FRAME(instr_ptr), FRAME(instr_ptr)),
    .frame_owner = SINCE_311(FRAMES_NONE, FRAME(owner)),
    .frame_state = SINCE_311(OBJECT(f_state), FRAMES_NONE),
    .frame_size = SINCE_311(OBJECT(f_state) + sizeof(PyFrameState), FRAME(localsplus)),
    .frame_is_object = SINCE_311(true, false),
    .instruction_is_index = SINCE_311(true, false),
    .owner_generator = SINCE_311(0xff, FRAME_OWNED_BY_GENERATOR),
    .owner_interpreter = BY(0xff, FRAME_OWNED_BY_FRAME_OBJECT + 1, FRAME_OWNED_BY_CSTACK, FRAME_OWNED_BY_CSTACK,
                            FRAME_OWNED_BY_INTERPRETER),
    .code_tag_mask = BY(0, 0, 0, 0, 3),
    .code_consts = CODE(co_consts),
    .code_names = CODE(co_names),
    .code_first_line = CODE(co_firstlineno),
    .code_file = CODE(co_filename),
    .code_name = CODE(co_name),
    .code_qualname = SINCE_311(CODE(co_name), CODE(co_qualname)),
    .code_table = CODE(co_linetable),
    .code_version = SINCE_312(FRAMES_NONE, CODE(co_version)),
    .code_body = SINCE_311(FRAMES_NONE, CODE(co_code_adaptive)),
    .code_first_traceable = SINCE_311(FRAMES_NONE, CODE(_co_firsttraceable)),
    .code_size = SINCE_311(CODE(co_linetable) + sizeof(PyObject *), CODE(co_code_adaptive)),
    .code_has_length = SINCE_311(false, true),
};

#undef BY
#undef SINCE_311
#undef SINCE_312
#undef INTERPRETER
#undef THREAD
#undef OBJECT
#undef FRAME
#undef CODE

#endif /* SCALANA_FRAME_LAYOUT */
