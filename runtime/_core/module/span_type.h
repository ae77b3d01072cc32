/* The type `Span` of Python. Comes after Python.h. */
#pragma once

extern PyTypeObject span_python_type;

/* As __enter__() of a span, and its end(); keys and values are tuples of one size, or NULL. */
void span_begin_again(PyObject *span);
void span_leave(PyObject *span, PyObject *keys, PyObject *values);
