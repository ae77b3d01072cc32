#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module/span_values.h"

#include "module/arguments.h"
#include "record/kinds.h"
#include "recorder/spans.h"

uint32_t intern_text_locked(PyObject *text)
{
    Py_ssize_t size;
    const char *utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    if (utf8) {
        return recorder_string_locked(utf8, (size_t)size);
    }
    PyErr_Clear();
    return 0;
}

span_attribute attribute_locked(PyObject *key, PyObject *value)
{
    span_attribute a = {.key = intern_text_locked(key), .tag = ATTRIBUTE_NUMBER};
    if (PyFloat_Check(value)) {
        a.tag = ATTRIBUTE_REAL;
        a.real = PyFloat_AS_DOUBLE(value);
    } else if (PyUnicode_Check(value)) {
        a.tag = ATTRIBUTE_TEXT;
        a.text = intern_text_locked(value);
    } else if (!as_int64(value, &a.number)) {
        PyErr_Clear();
    }
    return a;
}

/* A str that stands in UTF-8, as all records do: what cannot is replaced. */
static PyObject *encodable(PyObject *text)
{
    if (text == NULL || PyUnicode_AsUTF8(text)) {
        return text;
    }
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    Py_DECREF(text);
    PyObject *result =
        bytes ? PyUnicode_DecodeUTF8(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), "replace") : NULL;
    Py_XDECREF(bytes);
    return result;
}

static PyObject *number_of(PyObject *value)
{
    if (PyIndex_Check(value)) {
        PyObject *number = PyNumber_Index(value);
        if (number) {
            return number;
        }
        PyErr_Clear();
    }
    const PyNumberMethods *methods = Py_TYPE(value)->tp_as_number;
    PyObject *number = methods && methods->nb_float ? PyNumber_Float(value) : NULL;
    PyErr_Clear();
    return number;
}

PyObject *plain_value(PyObject *value)
{
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value)) {
        Py_INCREF(value);
        return value;
    }
    PyObject *result = NULL;
    if (value != Py_None) {
        result = PyUnicode_Check(value) ? NULL : number_of(value);
        result = result ? result : encodable(PyObject_Str(value));
    }
    PyErr_Clear();
    return result;
}
