#define PY_SSIZE_T_CLEAN
#include "torch/waits.h"

#include <stddef.h>
#include <structmember.h>

#include "torch/calls.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *original, *name, *qualified_name, *doc;
} recorded_wait;

static void note_source(PyObject *work, uint64_t event)
{
    PyObject *source = PyObject_CallMethod(work, "_source_rank", NULL);
    long long member = source ? PyLong_AsLongLong(source) : -1;
    Py_XDECREF(source);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        member = -1;
    }
    torch_found_source(event, member);
}

static PyObject *call_recorded(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    PyObject *original = ((recorded_wait *)callable)->original;
    if (PyVectorcall_NARGS(flags) == 0) {
        return PyObject_Vectorcall(original, args, flags, names);
    }
    PyObject *work = args[0];
    const void *address = torch_wrapped_by(work);
    torch_wait wait = torch_wait_entered(address);
    PyObject *result = PyObject_Vectorcall(original, args, flags, names);
    uint64_t unknown = torch_wait_left(&wait, address, result != NULL);
    if (unknown) {
        note_source(work, unknown);
    }
    return result;
}

static PyObject *bind(PyObject *callable, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(callable, object) : Py_NewRef(callable);
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    recorded_wait *self = (recorded_wait *)object;
    Py_VISIT(self->original);
    return 0;
}

static int clear(PyObject *object)
{
    recorded_wait *self = (recorded_wait *)object;
    Py_CLEAR(self->original);
    return 0;
}

static void dealloc(PyObject *object)
{
    recorded_wait *self = (recorded_wait *)object;
    PyObject_GC_UnTrack(object);
    clear(object);
    Py_XDECREF(self->name);
    Py_XDECREF(self->qualified_name);
    Py_XDECREF(self->doc);
    PyObject_GC_Del(object);
}

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(recorded_wait, original), READONLY, NULL},
    {"__name__", T_OBJECT, offsetof(recorded_wait, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(recorded_wait, qualified_name), READONLY, NULL},
    {"__doc__", T_OBJECT, offsetof(recorded_wait, doc), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "scalana.runtime._core.RecordedWait",
    .tp_basicsize = sizeof(recorded_wait),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(recorded_wait, call),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = bind,
    .tp_members = members,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
};

static PyObject *core_torch_recorded_wait(PyObject *module, PyObject *args)
{
    PyObject *original;
    const char *name, *class_name;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oss:torch_recorded_wait", &original, &class_name, &name) || PyType_Ready(&type) < 0) {
        return NULL;
    }
    recorded_wait *self = PyObject_GC_New(recorded_wait, &type);
    if (self == NULL) {
        return NULL;
    }
    self->call = call_recorded;
    self->original = Py_NewRef(original);
    self->name = PyUnicode_FromString(name);
    self->qualified_name = PyUnicode_FromFormat("%s.%s", class_name, name);
    self->doc = PyObject_GetAttrString(original, "__doc__");
    PyErr_Clear();
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}

PyMethodDef torch_wait_methods[] = {
    {"torch_recorded_wait", core_torch_recorded_wait, METH_VARARGS,
     "torch_recorded_wait(original, class_name, name): Work.wait, recorded."},
    {NULL, NULL, 0, NULL},
};
