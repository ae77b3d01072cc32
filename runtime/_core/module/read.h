/* read(): a record file as Python objects. split(): a block of one in two. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *core_read(PyObject *module, PyObject *arguments);
PyObject *core_split(PyObject *module, PyObject *payload);
