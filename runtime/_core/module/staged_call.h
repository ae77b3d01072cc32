/* The type `StagedCall` of Python. Comes after Python.h. */
#pragma once

#include <stdbool.h>

extern PyTypeObject staged_call_type;

/* Makes it ready. False with an exception set. */
bool staged_call_ready(void);
