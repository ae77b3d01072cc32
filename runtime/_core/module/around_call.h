/* The type `AroundCall` of Python. Comes after Python.h. */
#ifndef SCALANA_AROUND_CALL_H
#define SCALANA_AROUND_CALL_H

#include <stdbool.h>

extern PyTypeObject around_call_type;

/* Makes it ready. False with an exception set. */
bool around_call_ready(void);

#endif
