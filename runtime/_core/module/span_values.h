/* Names and attributes of spans, from Python's objects. Comes after Python.h. */
#pragma once

#include "record/spans.h"

/* More than that are left out. */
#define MOST_ATTRIBUTES 64

/* Id of a text, under the recorder's lock; 0 if it is none. Needs nothing of Python that could let go of its lock. */
uint32_t intern_text_locked(PyObject *text);
/* The attribute that a key and a value make, likewise; the value is an int, a float or a str. */
span_attribute attribute_locked(PyObject *key, PyObject *value);
/* What of a value is recorded: itself, or the number or text that it stands for. A new reference; NULL, without an
 * exception, if it has none. May run the value's own code. */
PyObject *plain_value(PyObject *value);
