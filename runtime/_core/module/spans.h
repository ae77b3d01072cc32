/* Spans for Python: the type `Span` and what our own recorders call. Comes after Python.h. */
#pragma once

#include <stdbool.h>

/* Adds both to the module. False with an exception set. */
bool add_spans(PyObject *module);
