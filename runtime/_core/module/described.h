/* Where the interpreter's objects lie, in words: for those who read them from another process. */
#ifndef SCALANA_DESCRIBED_H
#define SCALANA_DESCRIBED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Names and numbers, "name=number" with a space between; empty where this version has no layout for it. */
PyObject *described_interpreter(PyObject *module, PyObject *unused);

#endif
