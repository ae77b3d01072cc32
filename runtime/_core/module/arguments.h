/* What Python passes to the module's functions, in C. Comes after Python.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An int that fits, cut to the range of an int64 otherwise: what cannot be represented must not disturb the job. */
static inline bool as_int64(PyObject *object, int64_t *value)
{
    int overflow = 0;
    long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (number == -1 && PyErr_Occurred()) {
        return false;
    }
    *value = overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : (int64_t)number;
    return true;
}

static inline uint64_t not_negative(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

static inline uint32_t as_u32(int64_t value)
{
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static inline bool take_ints(const char *function, PyObject *const *args, Py_ssize_t count, Py_ssize_t least, Py_ssize_t most,
                      int64_t *values)
{
    if (count < least || count > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes from %zd to %zd arguments, not %zd", function, least, most, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!as_int64(args[i], &values[i])) {
            return false;
        }
    }
    return true;
}

static inline PyObject *text_bytes(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
}
