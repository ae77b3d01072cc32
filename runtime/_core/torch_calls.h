/* Calls of torch that are recorded without the interpreter, and what they share with those that Python records. */
#ifndef SCALANA_TORCH_CALLS_H
#define SCALANA_TORCH_CALLS_H

#include <Python.h>

/* Methods of the extension: see module.c for what they do. */
PyObject *torch_number(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *torch_wait_follows(PyObject *module, PyObject *event);
PyObject *torch_waits(PyObject *module, PyObject *unused);
PyObject *torch_waited(PyObject *module, PyObject *unused);
PyObject *torch_know_group(PyObject *module, PyObject *args);
PyObject *torch_forget_group(PyObject *module, PyObject *address);
PyObject *torch_api(PyObject *module, PyObject *args);

#endif
