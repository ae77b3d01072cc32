/* read(): a record file as Python objects. */
#ifndef SCALANA_MODULE_READ_H
#define SCALANA_MODULE_READ_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *core_read(PyObject *module, PyObject *arguments);

#endif
