/* The type `Span` of Python. Comes after Python.h. */
#ifndef SCALANA_SPAN_TYPE_H
#define SCALANA_SPAN_TYPE_H

extern PyTypeObject span_python_type;

#endif
