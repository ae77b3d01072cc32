/* Samples that were taken in Python, where the interpreter's frames cannot be read; where threads run, and memory lies.
 * Comes after Python.h. */
#pragma once

/* sample_path(frames, inside=0): id of a path of (file, name, first line, line), outermost first, inside of another. */
PyObject *core_sample_path(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* add_sample(tid, path, state): a thread was seen here now. */
PyObject *core_add_sample(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* core_times(): CPU time of this process by core, in ns, since it was first asked for. */
PyObject *core_core_times(PyObject *module, PyObject *unused);
/* page_nodes(addresses): the NUMA node of the page at each, negative where there is none. */
PyObject *core_page_nodes(PyObject *module, PyObject *addresses);
