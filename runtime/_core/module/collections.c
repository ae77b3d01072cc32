/* Runs of Python's garbage collector: a callback in `gc.callbacks` that writes a span for each run that is long enough,
 * and counts the rest.
 *
 * It is C, not Python: a function of Python's would handle signals in here, and the collector drops what their handlers
 * raise. An interpreter collects once at a time, and calls this in the thread that started it: one note of the begin is
 * enough. It makes no objects that the collector knows, and raises nothing. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clocks.h"
#include "frames/frames.h"
#include "module/collections.h"
#include "record/kinds.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "recorder/spans.h"
#include "threads/notes.h"

/* Shorter collections are counted and not written: less than a fifth of the time between two samples. */
#define SHORTEST_NS UINT64_C(1000000)
/* The totals are written no more often, and at the end of a recording. */
#define TOTALS_EVERY_NS UINT64_C(1000000000)
/* A callback that is removed comes back unless it came back this short a time ago: a program that removes callbacks
 * until there are none gets to an end. */
#define LASTS_NS UINT64_C(1000000)
#define TOTALS_KEY "collections"

typedef struct {
    uint64_t generation; /* of the recording that it is of */
    uint64_t count, total_ns, long_count, long_ns;
    uint64_t written_at_ns;
} collection_totals;

static collection_totals totals;
static struct {
    uint64_t generation; /* of the recording, 0 for none */
    uint64_t start_ns;
} begun;
/* The interpreter's own list, once it is watched; the program may take callbacks out of it. */
static PyObject *callbacks;
static uint64_t added_ns;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
} collection_watch;

static collection_totals *current_totals(void)
{
    const uint64_t generation = recorder_generation();
    if (totals.generation != generation) {
        totals = (collection_totals){.generation = generation};
    }
    return &totals;
}

static void write_totals(collection_totals *t, uint64_t now_ns)
{
    char text[96];
    int size = snprintf(text, sizeof text, "%llu %llu %llu %llu", (unsigned long long)t->count,
                        (unsigned long long)t->total_ns, (unsigned long long)t->long_count,
                        (unsigned long long)t->long_ns);
    if (size > 0 && (size_t)size < sizeof text) {
        recorder_meta(TOTALS_KEY, strlen(TOTALS_KEY), text, (size_t)size);
        t->written_at_ns = now_ns;
    }
}

/* A number of what the collector says of a run, -1 where it says none. */
static int64_t said(PyObject *info, const char *key)
{
    PyObject *value = info && PyDict_Check(info) ? PyDict_GetItemString(info, key) : NULL; /* borrowed */
    int64_t number = value && PyLong_Check(value) ? (int64_t)PyLong_AsLongLong(value) : -1;
    PyErr_Clear();
    return number;
}

static void write_span(uint64_t start_ns, uint64_t end_ns, PyObject *info)
{
    static const char *const keys[] = {"generation", "collected", "uncollectable"};
    enum { KEYS = sizeof keys / sizeof *keys };
    int64_t values[KEYS];
    span_attribute attributes[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        values[i] = said(info, keys[i]);
    }
    thread_notes *own = own_notes();
    if (own == NULL) {
        return;
    }
    span_record span = {
        .type = SPAN_COLLECTION,
        .path = frames_path_of_self(&own->cache),
        .start_ns = start_ns,
        .duration_ns = end_ns - start_ns,
        .cpu_ns = -1,
        .step = recorder_current_step(),
        .attributes = attributes,
    };
    recorder_lock();
    if (recorder_is_on()) {
        for (size_t i = 0; i < KEYS; i++) {
            if (values[i] >= 0) {
                attributes[span.attribute_count++] = (span_attribute){
                    .key = recorder_string_locked(keys[i], strlen(keys[i])), .tag = ATTRIBUTE_NUMBER, .number = values[i]};
            }
        }
        span.lane = recorder_thread_lane_locked(own->index);
        span.name = recorder_string_locked("gc", 2);
        recorder_span_locked(&span);
    }
    recorder_unlock();
}

static void collection_ends(PyObject *info)
{
    if (begun.generation == 0 || begun.generation != recorder_generation()) {
        return; /* it began before the recording, or in the process that this one was forked from */
    }
    begun.generation = 0;
    const uint64_t now_ns = clock_wall_ns(), lasted_ns = now_ns > begun.start_ns ? now_ns - begun.start_ns : 0;
    collection_totals *t = current_totals();
    t->count++;
    t->total_ns += lasted_ns;
    if (lasted_ns < SHORTEST_NS) {
        return;
    }
    t->long_count++;
    t->long_ns += lasted_ns;
    write_span(begun.start_ns, now_ns, info);
    if (now_ns - t->written_at_ns >= TOTALS_EVERY_NS) {
        write_totals(t, now_ns);
    }
}

/* watch(phase, info): the phase is "start" or "stop"; a later Python may have more. */
static PyObject *watch_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    (void)self, (void)names;
    if (PyVectorcall_NARGS(flags) == 2 && PyUnicode_Check(args[0]) && recorder_is_on()) {
        if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
            begun.generation = recorder_generation();
            begun.start_ns = clock_wall_ns();
        } else if (PyUnicode_CompareWithASCIIString(args[0], "stop") == 0) {
            collection_ends(args[1]);
        }
    }
    Py_RETURN_NONE;
}

static bool is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

static bool add_watch(void);

/* The program took the callback out of the list. */
static void watch_free(PyObject *self)
{
    PyObject_Free(self);
    const uint64_t now_ns = clock_wall_ns();
    if (callbacks && recorder_is_on() && !is_finalizing() && now_ns - added_ns >= LASTS_NS) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (!add_watch()) {
            PyErr_Clear();
        }
        PyErr_Restore(type, value, traceback);
    }
}

static PyTypeObject watch_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "scalana.runtime._core.CollectionWatch",
    .tp_doc = "Records runs of the garbage collector.",
    .tp_basicsize = sizeof(collection_watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_dealloc = watch_free,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(collection_watch, call),
};

/* False with an exception set. */
static bool add_watch(void)
{
    collection_watch *watch = PyObject_New(collection_watch, &watch_type);
    if (watch == NULL) {
        return false;
    }
    watch->call = watch_call;
    added_ns = clock_wall_ns();
    bool added = PyList_Append(callbacks, (PyObject *)watch) == 0;
    Py_DECREF(watch);
    return added;
}

static PyObject *core_watch_collections(PyObject *module, PyObject *list)
{
    (void)module;
    if (!PyList_Check(list)) {
        return PyErr_Format(PyExc_TypeError, "watch_collections() takes gc.callbacks");
    }
    Py_XSETREF(callbacks, Py_NewRef(list));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        if (Py_IS_TYPE(PyList_GET_ITEM(list, i), &watch_type)) {
            Py_RETURN_NONE;
        }
    }
    return add_watch() ? Py_NewRef(Py_None) : NULL;
}

static PyObject *core_collections(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    collection_totals *t = current_totals();
    if (recorder_is_on() && t->count) {
        write_totals(t, clock_wall_ns());
    }
    return Py_BuildValue("(KKKK)", (unsigned long long)t->count, (unsigned long long)t->total_ns,
                         (unsigned long long)t->long_count, (unsigned long long)t->long_ns);
}

static PyMethodDef methods[] = {
    {"watch_collections", core_watch_collections, METH_O,
     "watch_collections(gc.callbacks): record runs of the garbage collector, also those of later recordings."},
    {"collections", core_collections, METH_NOARGS,
     "collections(): runs of the garbage collector in this recording, their ns, and the same of those that are spans; "
     "writes them into the record."},
    {NULL, NULL, 0, NULL},
};

bool add_collections(PyObject *module)
{
    return PyType_Ready(&watch_type) == 0 && PyModule_AddFunctions(module, methods) == 0;
}
