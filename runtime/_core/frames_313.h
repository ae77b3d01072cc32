/* Offsets of CPython 3.13: the thread state holds the current frame, which knows the instruction that runs. */
#ifndef SCALANA_FRAMES_313_H
#define SCALANA_FRAMES_313_H

#include "frames.h"

static const frame_layout layout = {
    .minor = 13,
    .interp_head = offsetof(PyInterpreterState, threads.head),
    .interp_made = offsetof(PyInterpreterState, threads.next_unique_id),
    .thread_next = offsetof(PyThreadState, next),
    .thread_interp = offsetof(PyThreadState, interp),
    .thread_native_id = offsetof(PyThreadState, native_thread_id),
    .thread_pthread = offsetof(PyThreadState, thread_id),
    .thread_frame = offsetof(PyThreadState, current_frame),
    .cframe_frame = FRAMES_NONE,
    .frame_code = offsetof(_PyInterpreterFrame, f_executable),
    .frame_previous = offsetof(_PyInterpreterFrame, previous),
    .frame_globals = offsetof(_PyInterpreterFrame, f_globals),
    .frame_instruction = offsetof(_PyInterpreterFrame, instr_ptr),
    .frame_owner = offsetof(_PyInterpreterFrame, owner),
    .frame_state = FRAMES_NONE,
    .frame_size = offsetof(_PyInterpreterFrame, localsplus),
    .frame_is_object = false,
    .instruction_is_index = false,
    .owner_generator = FRAME_OWNED_BY_GENERATOR,
    .owner_interpreter = FRAME_OWNED_BY_CSTACK,
    .code_tag_mask = 0,
    .code_consts = offsetof(PyCodeObject, co_consts),
    .code_names = offsetof(PyCodeObject, co_names),
    .code_first_line = offsetof(PyCodeObject, co_firstlineno),
    .code_file = offsetof(PyCodeObject, co_filename),
    .code_name = offsetof(PyCodeObject, co_name),
    .code_qualname = offsetof(PyCodeObject, co_qualname),
    .code_table = offsetof(PyCodeObject, co_linetable),
    .code_version = offsetof(PyCodeObject, co_version),
    .code_body = offsetof(PyCodeObject, co_code_adaptive),
    .code_first_traceable = offsetof(PyCodeObject, _co_firsttraceable),
    .code_size = offsetof(PyCodeObject, co_code_adaptive),
    .code_has_length = true,
};

#endif
