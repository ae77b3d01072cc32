/* scalana.span: a context manager, a decorator, and what begin() returns. All that can be done later is done when it
 * ends: where nothing is recorded, a span costs an object. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "module/span_type.h"

#include "base/clocks.h"
#include "frames/frames.h"
#include "module/span_types.h"
#include "module/span_values.h"
#include "record/kinds.h"
#include "recorder/lock.h"
#include "recorder/spans.h"
#include "threads/notes.h"

/* A span that was entered and not yet left. */
typedef struct {
    uint64_t generation; /* of the recording, 0 for none */
    uint64_t start_ns, cpu_ns;
    int64_t step;
    pid_t tid;
    uint32_t thread, path;
} span_entry;

typedef struct {
    PyObject_HEAD
    PyObject *name;
    PyObject *lane;   /* NULL: the thread's own */
    PyObject *kind;   /* of SPAN_OTHER, if the program called it something else */
    PyObject *keys;   /* tuples of one size, or NULL */
    PyObject *values;
    uint32_t type;
    bool shares_thread; /* with others that have their turns within it: its CPU time is not known */
    uint32_t depth, capacity; /* of entries, of which the first is `entry` */
    span_entry entry;
    span_entry *further;
} span_object;

#if PY_VERSION_HEX >= 0x030D0000
#define BEGIN_ALONE(object) Py_BEGIN_CRITICAL_SECTION(object)
#define END_ALONE() Py_END_CRITICAL_SECTION()
#else
#define BEGIN_ALONE(object) {
#define END_ALONE() }
#endif

/* ---- making one ---- */

static void span_free(PyObject *self)
{
    span_object *s = (span_object *)self;
    Py_XDECREF(s->name);
    Py_XDECREF(s->lane);
    Py_XDECREF(s->kind);
    Py_XDECREF(s->keys);
    Py_XDECREF(s->values);
    free(s->further);
    PyObject_Free(self);
}

static span_object *new_span(void)
{
    span_object *s = PyObject_New(span_object, &span_python_type);
    if (s) {
        memset((char *)s + offsetof(span_object, name), 0, sizeof *s - offsetof(span_object, name));
        s->type = SPAN_REGION;
    }
    return s;
}

static void take_kind(span_object *s, PyObject *kind)
{
    if (!PyUnicode_Check(kind)) {
        PyObject *text = plain_value(kind);
        if (text && PyUnicode_Check(text)) {
            take_kind(s, text);
        }
        Py_XDECREF(text);
        return;
    }
    for (uint32_t type = 0; type < SPAN_TYPES; type++) {
        if (PyUnicode_CompareWithASCIIString(kind, span_type_names[type]) == 0 && type != UNWRITTEN_CALLS) {
            s->type = type;
            return;
        }
    }
    s->type = SPAN_OTHER;
    Py_XSETREF(s->kind, plain_value(kind));
}

/* Whether a keyword is one of those that are no attributes, all of which have four letters. */
static bool is_called(PyObject *key, const char name[5])
{
    return PyUnicode_GET_LENGTH(key) == 4 && PyUnicode_CompareWithASCIIString(key, name) == 0;
}

static void take_lane(span_object *s, PyObject *lane)
{
    PyObject *text = plain_value(lane);
    if (text && !PyUnicode_Check(text)) {
        Py_SETREF(text, PyObject_Str(text));
        PyErr_Clear();
    }
    Py_XSETREF(s->lane, text);
}

/* Whether a keyword of a span that is being made says what it is, and is no attribute. */
static bool is_argument(PyObject *key)
{
    return is_called(key, "kind") || is_called(key, "lane");
}

/* Takes the attributes whose values stand behind the positional arguments, with None for those that have none to be
 * recorded; of a span that is being made, kind and lane, too. False, with an exception, when memory is short. */
static bool take_attributes(PyObject *const *values, PyObject *names, PyObject **keys, PyObject **kept, span_object *s)
{
    Py_ssize_t count = PyTuple_GET_SIZE(names), attributes = 0, used = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        attributes += s == NULL || !is_argument(PyTuple_GET_ITEM(names, i));
    }
    PyObject *some_keys = attributes < count ? PyTuple_New(attributes) : Py_NewRef(names);
    PyObject *some_values = PyTuple_New(attributes);
    if (some_keys == NULL || some_values == NULL) {
        Py_XDECREF(some_keys);
        Py_XDECREF(some_values);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = PyTuple_GET_ITEM(names, i);
        if (s && is_argument(key)) {
            if (is_called(key, "kind")) {
                take_kind(s, values[i]);
            } else {
                take_lane(s, values[i]);
            }
            continue;
        }
        if (attributes < count) {
            PyTuple_SET_ITEM(some_keys, used, Py_NewRef(key));
        }
        PyObject *value = plain_value(values[i]);
        PyTuple_SET_ITEM(some_values, used++, value ? value : Py_NewRef(Py_None));
    }
    *keys = some_keys;
    *kept = some_values;
    return true;
}

/* span(name, kind="region", lane=None, **attributes) */
static PyObject *span_call(PyObject *type, PyObject *const *args, size_t flags, PyObject *names)
{
    Py_ssize_t given = PyVectorcall_NARGS(flags), first = 0;
    PyObject *name = given ? args[0] : NULL;
    (void)type;
    for (Py_ssize_t i = 0; name == NULL && names && i < PyTuple_GET_SIZE(names); i++) {
        name = is_called(PyTuple_GET_ITEM(names, i), "name") ? args[given + i] : NULL;
        first = name ? -1 : 0;
    }
    if (name == NULL || given > 3) {
        return PyErr_Format(PyExc_TypeError, "span() takes a name, a kind, a lane, and attributes by their names");
    }
    span_object *s = new_span();
    if (s == NULL) {
        return NULL;
    }
    if (PyUnicode_CheckExact(name) && PyUnicode_IS_ASCII(name)) {
        Py_INCREF(name);
        s->name = name;
    } else {
        PyObject *text = PyObject_Str(name);
        if (text == NULL) { /* as any call of str() */
            Py_DECREF(s);
            return NULL;
        }
        s->name = plain_value(text);
        Py_DECREF(text);
    }
    if (given > 1) {
        take_kind(s, args[1]);
    }
    if (given > 2) {
        take_lane(s, args[2]);
    }
    if (names && !take_attributes(args + given, names, &s->keys, &s->values, s)) {
        Py_DECREF(s);
        return NULL;
    }
    if (first < 0) { /* its name came by its name: that is no attribute */
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->keys); i++) {
            if (is_called(PyTuple_GET_ITEM(s->keys, i), "name")) {
                Py_INCREF(Py_None);
                PyObject *old = PyTuple_GET_ITEM(s->values, i);
                PyTuple_SET_ITEM(s->values, i, Py_None);
                Py_DECREF(old);
            }
        }
    }
    return (PyObject *)s;
}

/* ---- entering and leaving ---- */

static bool push_entry(span_object *s, const span_entry *entry)
{
    if (s->depth == 0) {
        s->entry = *entry;
    } else {
        if (s->depth > s->capacity) {
            uint32_t capacity = s->capacity ? s->capacity * 2 : 4;
            span_entry *larger = realloc(s->further, capacity * sizeof *larger);
            if (larger == NULL) {
                return false;
            }
            s->further = larger;
            s->capacity = capacity;
        }
        s->further[s->depth - 1] = *entry;
    }
    s->depth++;
    return true;
}

static span_entry *entry_at(span_object *s, uint32_t at)
{
    return at == 0 ? &s->entry : &s->further[at - 1];
}

/* The latest entry of the calling thread, or of any. False when there is none. */
static bool pop_entry(span_object *s, pid_t tid, span_entry *entry)
{
    if (s->depth == 0) {
        return false;
    }
    uint32_t at = s->depth - 1;
    for (uint32_t i = s->depth; i-- > 0;) {
        if (entry_at(s, i)->tid == tid) {
            at = i;
            break;
        }
    }
    *entry = *entry_at(s, at);
    for (; at + 1 < s->depth; at++) {
        *entry_at(s, at) = *entry_at(s, at + 1);
    }
    s->depth--;
    return true;
}

static void enter(span_object *s)
{
    span_entry entry = {0};
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        entry.path = frames_path_of_self(&own->cache);
        entry.generation = own->generation;
        entry.thread = own->index;
        entry.tid = own->tid;
        entry.step = recorder_current_step();
        entry.start_ns = clock_wall_ns();
        entry.cpu_ns = own_cpu_near(own, entry.start_ns);
    }
    push_entry(s, &entry);
}

static uint32_t attributes_locked(PyObject *keys, PyObject *values, span_attribute *to, uint32_t count)
{
    Py_ssize_t size = keys ? PyTuple_GET_SIZE(keys) : 0;
    for (Py_ssize_t i = 0; i < size && count < MOST_ATTRIBUTES; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        if (value != Py_None) {
            to[count++] = attribute_locked(PyTuple_GET_ITEM(keys, i), value);
        }
    }
    return count;
}

static void leave(span_object *s, PyObject *keys, PyObject *values)
{
    span_entry entry;
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (!pop_entry(s, own ? own->tid : 0, &entry) || own == NULL || entry.generation != own->generation) {
        return; /* nothing recorded it when it began, or that recording is over */
    }
    uint64_t now = clock_wall_ns();
    bool known = entry.tid == own->tid && !s->shares_thread;
    uint64_t cpu = known ? own_cpu_near(own, now) : 0;
    uint64_t ran = cpu > entry.cpu_ns ? cpu - entry.cpu_ns : 0;
    span_attribute attributes[MOST_ATTRIBUTES];
    span_record span = {
        .type = s->type,
        .path = entry.path,
        .start_ns = entry.start_ns,
        .duration_ns = now > entry.start_ns ? now - entry.start_ns : 0,
        .cpu_ns = known ? (int64_t)ran : -1,
        .step = entry.step,
        .attributes = attributes,
    };
    recorder_lock();
    span.name = intern_text_locked(s->name);
    if (s->lane) {
        Py_ssize_t size;
        const char *name = PyUnicode_AsUTF8AndSize(s->lane, &size);
        span.lane = name ? recorder_lane_locked(LANE_OTHER, -1, name, (size_t)size) : 0;
    } else {
        span.lane = recorder_thread_lane_locked(entry.thread);
    }
    uint32_t count = attributes_locked(s->keys, s->values, attributes, 0);
    count = attributes_locked(keys, values, attributes, count);
    if (s->kind && count < MOST_ATTRIBUTES) {
        attributes[count] = (span_attribute){.key = recorder_string_locked("kind", 4), .tag = ATTRIBUTE_TEXT};
        attributes[count++].text = intern_text_locked(s->kind);
    }
    span.attribute_count = count;
    recorder_span_locked(&span);
    recorder_unlock();
}

void span_begin_again(PyObject *span)
{
    BEGIN_ALONE(span);
    enter((span_object *)span);
    END_ALONE();
}

void span_leave(PyObject *span, PyObject *keys, PyObject *values)
{
    BEGIN_ALONE(span);
    leave((span_object *)span, keys, values);
    END_ALONE();
}

static PyObject *span_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    span_begin_again(self);
    return Py_NewRef(self);
}

static PyObject *span_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)args, (void)count;
    span_leave(self, NULL, NULL);
    Py_RETURN_NONE;
}

/* span.begin(name, kind="region", lane=None, **attributes) */
static PyObject *span_begin(PyObject *type, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *self = span_call(type, args, (size_t)count, names);
    if (self) {
        enter((span_object *)self);
    }
    return self;
}

/* handle.end(**attributes) */
static PyObject *span_end(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *keys = NULL, *values = NULL;
    if (count) {
        return PyErr_Format(PyExc_TypeError, "end() takes attributes by their names alone");
    }
    if (names && recorder_is_on() && !take_attributes(args, names, &keys, &values, NULL)) {
        return NULL;
    }
    span_leave(self, keys, values);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_RETURN_NONE;
}

/* Another span of the same name and attributes, not entered. */
static PyObject *span_again(PyObject *self, PyObject *shares_thread)
{
    const span_object *s = (const span_object *)self;
    span_object *other = new_span();
    int shares = PyObject_IsTrue(shares_thread);
    if (other == NULL || shares < 0) {
        Py_XDECREF(other);
        return NULL;
    }
    other->name = Py_NewRef(s->name);
    other->lane = Py_XNewRef(s->lane);
    other->kind = Py_XNewRef(s->kind);
    other->keys = Py_XNewRef(s->keys);
    other->values = Py_XNewRef(s->values);
    other->type = s->type;
    other->shares_thread = shares;
    return (PyObject *)other;
}

/* As a decorator. */
static PyObject *span_decorate(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *function;
    if ((keywords && PyDict_GET_SIZE(keywords)) || !PyArg_ParseTuple(args, "O:span", &function)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a span decorates one function");
    }
    PyObject *module = PyImport_ImportModule("scalana.runtime.spans");
    PyObject *result = module ? PyObject_CallMethod(module, "decorated", "OO", self, function) : NULL;
    Py_XDECREF(module);
    return result;
}

static PyMethodDef span_methods[] = {
    {"__enter__", span_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL, NULL},
    {"begin", (PyCFunction)(void (*)(void))span_begin, METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
     "begin(name, kind='region', lane=None, **attributes): a span that has begun, and that end() ends."},
    {"end", (PyCFunction)(void (*)(void))span_end, METH_FASTCALL | METH_KEYWORDS,
     "end(**attributes): it ends here, in whichever thread; with what is known by now. Later calls do nothing."},
    {"again", span_again, METH_O, "again(shares_thread): another one of the same name and attributes."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef span_members[] = {
    {"name", T_OBJECT, offsetof(span_object, name), READONLY, "What it is called."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject span_python_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "scalana.span",
    .tp_doc = "span(name, kind='region', lane=None, **attributes)\n--\n\n"
              "Names a stretch of the program, as a context manager, a decorator, or between begin() and end().",
    .tp_basicsize = sizeof(span_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = span_free,
    .tp_call = span_decorate,
    .tp_vectorcall = span_call,
    .tp_methods = span_methods,
    .tp_members = span_members,
};
