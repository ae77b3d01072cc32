#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module/spans.h"

#include "base/clocks.h"
#include "frames/frames.h"
#include "module/arguments.h"
#include "module/around_call.h"
#include "module/span_type.h"
#include "module/span_types.h"
#include "module/span_values.h"
#include "module/staged_call.h"
#include "record/kinds.h"
#include "recorder/lock.h"
#include "recorder/spans.h"
#include "threads/notes.h"

/* ---- what our own recorders call, with ids ---- */

static PyObject *core_intern(PyObject *module, PyObject *text)
{
    (void)module;
    if (!PyUnicode_Check(text)) {
        return PyErr_Format(PyExc_TypeError, "intern() takes a str");
    }
    PyObject *plain = plain_value(text);
    uint32_t id = 0;
    if (plain && recorder_is_on()) {
        recorder_lock();
        id = intern_text_locked(plain);
        recorder_unlock();
    }
    Py_XDECREF(plain);
    return PyLong_FromUnsignedLong(id);
}

static PyObject *core_lane(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t kind;
    (void)module;
    if (count != 2 || !PyUnicode_Check(args[1])) {
        return PyErr_Format(PyExc_TypeError, "lane() takes a kind and a name");
    }
    if (!as_int64(args[0], &kind)) {
        return NULL;
    }
    PyObject *bytes = text_bytes(args[1]);
    if (bytes == NULL) {
        return NULL;
    }
    uint32_t id = 0;
    thread_notes *own = kind == LANE_THREAD && recorder_is_on() ? own_notes() : NULL;
    recorder_lock();
    if (own) {
        id = recorder_thread_lane_locked(own->index);
    } else if (recorder_is_on()) {
        id = recorder_lane_locked(kind > 0 && kind < LANE_KINDS ? (enum lane_kind)kind : LANE_OTHER, -1,
                                  PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    }
    recorder_unlock();
    Py_DECREF(bytes);
    return PyLong_FromUnsignedLong(id);
}

/* Key ids and values, in turns. */
static uint32_t pairs_locked(PyObject *pairs, span_attribute *attributes)
{
    Py_ssize_t size = PyTuple_Check(pairs) ? PyTuple_GET_SIZE(pairs) / 2 : 0;
    uint32_t count = 0;
    for (Py_ssize_t i = 0; i < size && count < MOST_ATTRIBUTES; i++) {
        PyObject *value = PyTuple_GET_ITEM(pairs, 2 * i + 1);
        int64_t key;
        if (!as_int64(PyTuple_GET_ITEM(pairs, 2 * i), &key)) {
            PyErr_Clear();
        } else if (PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value)) {
            attributes[count] = attribute_locked(Py_None, value);
            attributes[count++].key = as_u32(key);
        }
    }
    return count;
}

static PyObject *core_span(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[7] = {0};
    (void)module;
    if (count < 5 || count > 8) {
        return PyErr_Format(PyExc_TypeError, "span() takes from 5 to 8 arguments, not %zd", count);
    }
    v[5] = -1;
    for (Py_ssize_t i = 0; i < count && i < 7; i++) {
        if (!as_int64(args[i], &v[i])) {
            return NULL;
        }
    }
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        span_attribute attributes[MOST_ATTRIBUTES];
        const uint64_t start = not_negative(v[3]), end = not_negative(v[4]);
        span_record span = {
            .type = as_u32(v[0]),
            .lane = as_u32(v[1]),
            .name = as_u32(v[2]),
            .path = frames_path_of_self(&own->cache),
            .start_ns = start,
            .duration_ns = end > start ? end - start : 0,
            .cpu_ns = v[5] < 0 ? -1 : v[5],
            .event = not_negative(v[6]),
            .step = recorder_current_step(),
            .attributes = attributes,
        };
        recorder_lock();
        span.attribute_count = count == 8 ? pairs_locked(args[7], attributes) : 0;
        span.lane = span.lane ? span.lane : recorder_thread_lane_locked(own->index);
        recorder_span_locked(&span);
        recorder_unlock();
    }
    Py_RETURN_NONE;
}

static PyObject *core_here(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own == NULL) {
        return Py_BuildValue("(iL)", 0, -1LL);
    }
    return Py_BuildValue("(IL)", (unsigned int)frames_path_of_self(&own->cache), (long long)recorder_current_step());
}

static PyObject *core_span_at(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[8];
    (void)module;
    if (count != 9) {
        return PyErr_Format(PyExc_TypeError, "span_at() takes 9 arguments, not %zd", count);
    }
    for (Py_ssize_t i = 0; i < 8; i++) {
        if (!as_int64(args[i], &v[i])) {
            return NULL;
        }
    }
    const uint64_t start = not_negative(v[3]), end = not_negative(v[4]);
    span_attribute attributes[MOST_ATTRIBUTES];
    span_record span = {
        .type = as_u32(v[0]),
        .lane = as_u32(v[1]),
        .name = as_u32(v[2]),
        .start_ns = start,
        .duration_ns = end > start ? end - start : 0,
        .cpu_ns = -1,
        .path = as_u32(v[5]),
        .step = v[6],
        .event = not_negative(v[7]),
        .attributes = attributes,
    };
    recorder_lock();
    if (recorder_is_on() && span.lane) {
        span.attribute_count = pairs_locked(args[8], attributes);
        recorder_span_locked(&span);
    }
    recorder_unlock();
    Py_RETURN_NONE;
}

/* ---- steps ---- */

static PyObject *core_mark_step(PyObject *module, PyObject *source)
{
    int64_t number;
    (void)module;
    if (!as_int64(source, &number)) {
        return NULL;
    }
    thread_notes *own = recorder_is_on() && number > 0 && number < STEP_SOURCES ? own_notes() : NULL;
    if (own) {
        uint32_t path = frames_path_of_self(&own->cache);
        uint64_t now = clock_wall_ns();
        recorder_mark_step((enum step_source)number, own->tid, own->index, path, now, own_cpu_at(own, now));
    }
    Py_RETURN_NONE;
}

static PyObject *core_begin_steps(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        uint64_t now = clock_wall_ns();
        recorder_begin_steps(own->tid, now, own_cpu_at(own, now));
    }
    Py_RETURN_NONE;
}

static PyObject *core_current_step(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLongLong(recorder_is_on() ? recorder_current_step() : -1);
}

static PyMethodDef methods[] = {
    {"intern", core_intern, METH_O, "intern(text): id of a name, key or value of spans; 0 while nothing is recorded."},
    {"lane", (PyCFunction)(void (*)(void))core_lane, METH_FASTCALL,
     "lane(kind, name): id of a lane, of the calling thread itself for kind 0; 0 while nothing is recorded."},
    {"span", (PyCFunction)(void (*)(void))core_span, METH_FASTCALL,
     "span(type, lane, name, start_ns, end_ns, cpu_ns=-1, event=0, attributes=None): a span of the calling thread's "
     "past. lane is 0 for the thread itself, attributes is a tuple of key ids and values in turns."},
    {"here", core_here, METH_NOARGS, "here(): id of the caller's call path, and the number of the step, -1 outside of any."},
    {"span_at", (PyCFunction)(void (*)(void))core_span_at, METH_FASTCALL,
     "span_at(type, lane, name, start_ns, end_ns, path, step, event, attributes): a span of any lane, with the path and "
     "the step that here() told when it was asked for."},
    {"mark_step", core_mark_step, METH_O, "mark_step(source): a training step ends here, and the next one begins."},
    {"begin_steps", core_begin_steps, METH_NOARGS, "begin_steps(): the first training step begins here."},
    {"current_step", core_current_step, METH_NOARGS, "current_step(): number of the step, -1 outside of any."},
    {NULL, NULL, 0, NULL},
};

bool add_spans(PyObject *module)
{
    PyObject *names = PyTuple_New(SPAN_TYPES);
    for (Py_ssize_t i = 0; names && i < SPAN_TYPES; i++) {
        PyObject *name = PyUnicode_FromString(span_type_names[i]);
        if (name == NULL) {
            Py_CLEAR(names);
            break;
        }
        PyTuple_SET_ITEM(names, i, name);
    }
    bool good = names && PyModule_AddObjectRef(module, "span_types", names) == 0;
    good = good && PyType_Ready(&span_python_type) == 0 && staged_call_ready() && around_call_ready();
    Py_XDECREF(names);
    return good && PyModule_AddObjectRef(module, "Span", (PyObject *)&span_python_type) == 0 &&
           PyModule_AddObjectRef(module, "StagedCall", (PyObject *)&staged_call_type) == 0 &&
           PyModule_AddObjectRef(module, "AroundCall", (PyObject *)&around_call_type) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
