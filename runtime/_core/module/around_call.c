/* A function with something to be done before and after it, and no frame of its own: tracebacks of what the function
 * raises are as they were. What is done around it fails without notice, but for what is no `Exception` (Ctrl-C). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

#include "module/around_call.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *function;
    PyObject *enter; /* enter(arguments) returns a state; those by keyword come last */
    PyObject *leave; /* leave(state, arguments, result, type of an exception) */
    PyObject *dict, *weak;
} around_call;

/* Forgets an exception of what is done around a function. False where it is none to be forgotten. */
static bool forgotten(void)
{
    if (PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        return true;
    }
    return false;
}

/* A new reference to the result, NULL where there is an exception. Takes the one that is given. */
static PyObject *left(around_call *a, PyObject *state, PyObject *told, PyObject *result)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *of[] = {NULL, state, told, result ? result : Py_None, type ? type : Py_None};
    PyObject *done = PyObject_Vectorcall(a->leave, of + 1, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (done == NULL && !forgotten()) {
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return NULL;
    }
    Py_XDECREF(done);
    PyErr_Restore(type, value, traceback);
    return result;
}

static PyObject *call_around(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    around_call *a = (around_call *)self;
    Py_ssize_t given = PyVectorcall_NARGS(flags) + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *told = PyTuple_New(given), *state = NULL;
    if (told) {
        for (Py_ssize_t i = 0; i < given; i++) {
            PyTuple_SET_ITEM(told, i, Py_NewRef(args[i]));
        }
        state = PyObject_CallOneArg(a->enter, told);
    }
    if (state == NULL && !forgotten()) {
        Py_XDECREF(told);
        return NULL;
    }
    PyObject *result = PyObject_Vectorcall(a->function, args, flags, names);
    if (state) {
        result = left(a, state, told, result);
        Py_DECREF(state);
    }
    Py_XDECREF(told);
    return result;
}

/* ---- the type ---- */

static PyObject *around_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *words[] = {"function", "enter", "leave", NULL};
    PyObject *function, *enter, *leave;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:AroundCall", words, &function, &enter, &leave)) {
        return NULL;
    }
    around_call *a = (around_call *)type->tp_alloc(type, 0);
    if (a) {
        a->call = call_around;
        a->function = Py_NewRef(function);
        a->enter = Py_NewRef(enter);
        a->leave = Py_NewRef(leave);
    }
    return (PyObject *)a;
}

static int around_traverse(PyObject *self, visitproc visit, void *arg)
{
    around_call *a = (around_call *)self;
    Py_VISIT(a->function);
    Py_VISIT(a->enter);
    Py_VISIT(a->leave);
    Py_VISIT(a->dict);
    return 0;
}

static int around_clear(PyObject *self)
{
    around_call *a = (around_call *)self;
    Py_CLEAR(a->function);
    Py_CLEAR(a->enter);
    Py_CLEAR(a->leave);
    Py_CLEAR(a->dict);
    return 0;
}

static void around_free(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((around_call *)self)->weak) {
        PyObject_ClearWeakRefs(self);
    }
    around_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *around_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

/* What it stands for is found by its name, as a function is. */
static PyObject *around_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef around_methods[] = {
    {"__reduce__", around_reduce, METH_NOARGS, "The name of the function."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef around_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject around_call_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "scalana.runtime._core.AroundCall",
    .tp_doc = "AroundCall(function, enter, leave)\n--\n\n"
              "The function, with enter(arguments) before and leave(state, arguments, result, exception type) after it.",
    .tp_basicsize = sizeof(around_call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = around_new,
    .tp_dealloc = around_free,
    .tp_traverse = around_traverse,
    .tp_clear = around_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(around_call, call),
    .tp_descr_get = around_bind,
    .tp_methods = around_methods,
    .tp_getset = around_getset,
    .tp_dictoffset = offsetof(around_call, dict),
    .tp_weaklistoffset = offsetof(around_call, weak),
};

bool around_call_ready(void)
{
    return PyType_Ready(&around_call_type) == 0;
}
