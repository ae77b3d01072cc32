/* The type `Span` of Python. Comes after Python.h. */
#ifndef SCALANA_SPAN_TYPE_H
#define SCALANA_SPAN_TYPE_H

extern PyTypeObject span_python_type;

/* As __enter__() of a span, and its end(); keys and values are tuples of one size, or NULL. */
void span_begin_again(PyObject *span);
void span_leave(PyObject *span, PyObject *keys, PyObject *values);

#endif
