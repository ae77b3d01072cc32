/* Runs of Python's garbage collector, as spans. Comes after Python.h. */
#pragma once

#include <stdbool.h>

/* Adds the functions to the module. False with an exception set. */
bool add_collections(PyObject *module);
