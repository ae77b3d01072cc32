/* Calls of torch: what the kernels in C++ and those in Python have recorded. */
#pragma once

#include "torch/groups.h"

/* A wait of the calling thread, for a Work or for what it has already entered. */
typedef struct {
    uint64_t event;    /* of the wait, 0: it is not recorded */
    uint64_t post;     /* that it completes */
    uint64_t blocking; /* or the call that it is part of, and ends */
} torch_wait;

torch_wait torch_wait_entered(const void *work);
/* `returned`: without an exception. Returns the event whose source the Work knows, 0 if there is none. */
uint64_t torch_wait_left(const torch_wait *wait, const void *work, bool returned);
void torch_found_source(uint64_t event, int64_t member);

/* Address of the C++ object behind an object of pybind11, which is the first word after the Python header. */
static inline const void *torch_wrapped_by(PyObject *object)
{
    const Py_ssize_t least = (Py_ssize_t)(sizeof(PyObject) + sizeof(void *));
    return Py_TYPE(object)->tp_basicsize >= least ? *(void **)(object + 1) : NULL;
}

/* Methods of the extension. */
extern PyMethodDef torch_methods[];
