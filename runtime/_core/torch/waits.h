/* Work.wait as a callable of C: in Python, it would cost more than all that it records. */
#ifndef SCALANA_TORCH_WAITS_H
#define SCALANA_TORCH_WAITS_H

#include <Python.h>

/* Methods of the extension. */
extern PyMethodDef torch_wait_methods[];

#endif
