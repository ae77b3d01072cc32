/* Offsets of CPython 3.10: frames are objects on the heap, f_lasti counts code units. */
#ifndef SCALANA_FRAMES_310_H
#define SCALANA_FRAMES_310_H

#include "frames.h"

static const frame_layout layout = {
    .minor = 10,
    .interp_head = offsetof(PyInterpreterState, tstate_head),
    .interp_made = offsetof(PyInterpreterState, tstate_next_unique_id),
    .thread_next = offsetof(PyThreadState, next),
    .thread_interp = offsetof(PyThreadState, interp),
    .thread_native_id = FRAMES_NONE,
    .thread_pthread = offsetof(PyThreadState, thread_id),
    .thread_frame = offsetof(PyThreadState, frame),
    .cframe_frame = FRAMES_NONE,
    .frame_code = offsetof(PyFrameObject, f_code),
    .frame_previous = offsetof(PyFrameObject, f_back),
    .frame_globals = offsetof(PyFrameObject, f_globals),
    .frame_instruction = offsetof(PyFrameObject, f_lasti),
    .frame_owner = FRAMES_NONE,
    .frame_state = offsetof(PyFrameObject, f_state),
    .frame_size = offsetof(PyFrameObject, f_state) + sizeof(PyFrameState),
    .frame_is_object = true,
    .instruction_is_index = true,
    .owner_generator = 0xff,
    .owner_interpreter = 0xff,
    .code_tag_mask = 0,
    .code_consts = offsetof(PyCodeObject, co_consts),
    .code_names = offsetof(PyCodeObject, co_names),
    .code_first_line = offsetof(PyCodeObject, co_firstlineno),
    .code_file = offsetof(PyCodeObject, co_filename),
    .code_name = offsetof(PyCodeObject, co_name),
    .code_qualname = offsetof(PyCodeObject, co_name),
    .code_table = offsetof(PyCodeObject, co_linetable),
    .code_version = FRAMES_NONE,
    .code_body = FRAMES_NONE,
    .code_first_traceable = FRAMES_NONE,
    .code_size = offsetof(PyCodeObject, co_linetable) + sizeof(PyObject *),
    .code_has_length = false,
};

#endif
