/* read(): a record file as Python objects. split(): a block of one in two. */
#ifndef SCALANA_MODULE_READ_H
#define SCALANA_MODULE_READ_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *core_read(PyObject *module, PyObject *arguments);
PyObject *core_split(PyObject *module, PyObject *payload);

#endif
