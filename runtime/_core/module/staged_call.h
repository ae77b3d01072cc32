/* The type `StagedCall` of Python. Comes after Python.h. */
#ifndef SCALANA_STAGED_CALL_H
#define SCALANA_STAGED_CALL_H

#include <stdbool.h>

extern PyTypeObject staged_call_type;

/* Makes it ready. False with an exception set. */
bool staged_call_ready(void);

#endif
