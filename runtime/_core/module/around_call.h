/* The type `AroundCall` of Python. Comes after Python.h. */
#pragma once

#include <stdbool.h>

extern PyTypeObject around_call_type;

/* Makes it ready. False with an exception set. */
bool around_call_ready(void);
