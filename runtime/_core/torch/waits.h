/* Work.wait as a callable of C: in Python, it would cost more than all that it records. */
#pragma once

#include <Python.h>

/* Methods of the extension. */
extern PyMethodDef torch_wait_methods[];
