/* Samples that were taken in Python, where the interpreter's frames cannot be read. Comes after Python.h. */
#pragma once

/* sample_path(frames, inside=0): id of a path of (file, name, first line, line), outermost first, inside of another. */
PyObject *core_sample_path(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* add_sample(tid, path, state): a thread was seen here now. */
PyObject *core_add_sample(PyObject *module, PyObject *const *args, Py_ssize_t count);
