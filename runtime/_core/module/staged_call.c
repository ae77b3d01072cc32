/* Functions of an engine of pipelines, recorded at the cost of little more than their spans. Which spans these are is
 * decided in Python, once for a run of a schedule (`spans`); whatever is not that simple is done there, too
 * (`otherwise`). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "module/staged_call.h"

#include "module/span_type.h"

/* Messages that are told apart in one batch. */
#define MOST_TAGS 16

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *function;
    PyObject *otherwise;
    PyObject *spans;  /* what is recorded in this run; NULL or None: all calls go to `otherwise` */
    PyObject *others; /* instead of it, where the keyword `flag` is False */
    PyObject *flag;
    PyObject *name;   /* of messages */
    PyObject *works;  /* the type of what is waited for */
    PyObject *failed; /* told of exceptions */
    PyObject *dict, *weak;
} staged_call;

/* What a message is: name, stage, microbatch, and the spans of its post and of the wait for it. */
enum { TAG_NAME, TAG_STAGE, TAG_MICROBATCH, TAG_POST, TAG_WAIT, TAG_SIZE };

static struct {
    PyObject *stage_index, *tag, *tags;
    PyObject *microbatch, *microbatch_and_sends; /* tuples of keys */
} word;

static PyObject *do_otherwise(staged_call *c, PyObject *const *args, size_t flags, PyObject *names)
{
    return PyObject_Vectorcall(c->otherwise, args, flags, names);
}

/* A new reference to what is recorded, NULL where nothing is. */
static PyObject *table_of(staged_call *c, PyObject *const *from)
{
    (void)c;
    PyObject *table;
#if PY_VERSION_HEX >= 0x030D0000
    Py_BEGIN_CRITICAL_SECTION(c);
    table = Py_XNewRef(*from);
    Py_END_CRITICAL_SECTION();
#else
    table = Py_XNewRef(*from);
#endif
    if (table && !PyDict_CheckExact(table)) {
        Py_CLEAR(table);
    }
    return table;
}

/* What a table has for a stage: a new reference, or NULL without an exception. */
static PyObject *entry_of(PyObject *table, PyObject *stage)
{
    PyObject *found = PyDict_GetItemWithError(table, stage);
    if (found == NULL) {
        PyErr_Clear();
    }
    return Py_XNewRef(found);
}

/* Ends a span; an exception that is under way stays so. */
static void end_span(PyObject *span, PyObject *keys, PyObject *first, PyObject *second)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *values = second ? PyTuple_Pack(2, first, second) : PyTuple_Pack(1, first);
    span_leave(span, values ? keys : NULL, values);
    Py_XDECREF(values);
    PyErr_Restore(type, value, traceback);
}

/* Whether the keyword, or what stands in its place, is True (1) or False (0); -1 for anything else. */
static int flag_in(const staged_call *c, PyObject *const *args, Py_ssize_t given, PyObject *names)
{
    PyObject *value = given > 3 ? args[3] : Py_True;
    Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = PyTuple_GET_ITEM(names, i);
        if (key == c->flag || PyUnicode_Compare(key, c->flag) == 0) {
            value = args[given + i];
        }
    }
    return value == Py_True ? 1 : value == Py_False ? 0 : -1;
}

/* stage.method(microbatch, ...) */
static PyObject *call_action(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    staged_call *c = (staged_call *)self;
    Py_ssize_t given = PyVectorcall_NARGS(flags);
    int flag = given >= 2 && c->flag ? flag_in(c, args, given, names) : 1;
    PyObject *table = flag < 0 ? NULL : table_of(c, flag ? &c->spans : &c->others);
    if (table == NULL || given < 2 || !PyLong_CheckExact(args[1])) {
        Py_XDECREF(table);
        return do_otherwise(c, args, flags, names);
    }
    PyObject *stage = PyObject_GetAttr(args[0], word.stage_index);
    PyObject *span = stage ? entry_of(table, stage) : NULL;
    PyErr_Clear();
    Py_XDECREF(stage);
    Py_DECREF(table);
    if (span == NULL || Py_TYPE(span) != &span_python_type) {
        Py_XDECREF(span);
        return do_otherwise(c, args, flags, names);
    }
    span_begin_again(span);
    PyObject *result = PyObject_Vectorcall(c->function, args, flags, names);
    end_span(span, word.microbatch, args[1], NULL);
    Py_DECREF(span);
    return result;
}

/* Tells that something could not be recorded: the exception that is set. */
static void tell_failure(staged_call *c)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *told = c->failed && value ? PyObject_CallOneArg(c->failed, value) : NULL;
    Py_XDECREF(told);
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

static bool tag_operations(staged_call *c, PyObject *operations, PyObject *stage, PyObject *microbatch, PyObject *spans)
{
    if (!PyTuple_CheckExact(spans) || PyTuple_GET_SIZE(spans) != 2) {
        PyErr_SetString(PyExc_TypeError, "no spans of a message");
        return false;
    }
    PyObject *tag = PyTuple_Pack(TAG_SIZE, c->name, stage, microbatch, PyTuple_GET_ITEM(spans, 0),
                                 PyTuple_GET_ITEM(spans, 1));
    bool good = tag != NULL;
    for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(operations); i++) {
        good = PyObject_SetAttr(PyList_GET_ITEM(operations, i), word.tag, tag) == 0;
    }
    Py_XDECREF(tag);
    return good;
}

/* stage.get_operations(microbatch): what they are is written on them. */
static PyObject *call_operations(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    staged_call *c = (staged_call *)self;
    Py_ssize_t given = PyVectorcall_NARGS(flags);
    PyObject *table = table_of(c, &c->spans);
    PyObject *stage = table && given >= 2 && PyLong_CheckExact(args[1]) ? PyObject_GetAttr(args[0], word.stage_index) : NULL;
    PyObject *spans = stage ? entry_of(table, stage) : NULL;
    PyErr_Clear();
    Py_XDECREF(table);
    if (spans == NULL) {
        Py_XDECREF(stage);
        return do_otherwise(c, args, flags, names);
    }
    PyObject *result = PyObject_Vectorcall(c->function, args, flags, names);
    if (result && PyList_CheckExact(result) && PyList_GET_SIZE(result) &&
        !tag_operations(c, result, stage, args[1], spans)) {
        tell_failure(c);
    }
    Py_DECREF(stage);
    Py_DECREF(spans);
    return result;
}

static bool is_tag(PyObject *tag)
{
    return tag && PyTuple_CheckExact(tag) && PyTuple_GET_SIZE(tag) == TAG_SIZE &&
           PyLong_CheckExact(PyTuple_GET_ITEM(tag, TAG_MICROBATCH)) &&
           Py_TYPE(PyTuple_GET_ITEM(tag, TAG_POST)) == &span_python_type &&
           Py_TYPE(PyTuple_GET_ITEM(tag, TAG_WAIT)) == &span_python_type;
}

/* The tags of some operations, each once; NULL, without an exception, where they are not all that simple. */
static PyObject *tags_of(PyObject *operations)
{
    Py_ssize_t count = PyList_CheckExact(operations) ? PyList_GET_SIZE(operations) : 0;
    PyObject *tags = count && count <= MOST_TAGS ? PyList_New(0) : NULL, *last = NULL;
    for (Py_ssize_t i = 0; tags && i < count && i < PyList_GET_SIZE(operations); i++) {
        PyObject *tag = PyObject_GetAttr(PyList_GET_ITEM(operations, i), word.tag);
        if (!is_tag(tag) || (tag != last && PyList_Append(tags, tag) < 0)) {
            Py_CLEAR(tags);
        }
        last = tag; /* held by the list, and only compared */
        Py_XDECREF(tag);
    }
    PyErr_Clear();
    return tags;
}

/* batch(operations, ...) returns what is to be waited for. */
static PyObject *call_batch(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    staged_call *c = (staged_call *)self;
    PyObject *table = table_of(c, &c->spans);
    PyObject *tags = table && PyVectorcall_NARGS(flags) ? tags_of(args[0]) : NULL;
    Py_XDECREF(table);
    if (tags == NULL) {
        return do_otherwise(c, args, flags, names);
    }
    Py_ssize_t count = PyList_GET_SIZE(tags);
    for (Py_ssize_t i = 0; i < count; i++) {
        span_begin_again(PyTuple_GET_ITEM(PyList_GET_ITEM(tags, i), TAG_POST));
    }
    PyObject *result = PyObject_Vectorcall(c->function, args, flags, names);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *tag = PyList_GET_ITEM(tags, i);
        end_span(PyTuple_GET_ITEM(tag, TAG_POST), word.microbatch, PyTuple_GET_ITEM(tag, TAG_MICROBATCH), NULL);
    }
    if (result && PyList_CheckExact(result) && PyList_GET_SIZE(result)) {
        PyObject *works = PyObject_CallOneArg(c->works, result);
        if (works && PyObject_SetAttr(works, word.tags, tags) == 0) {
            Py_SETREF(result, Py_NewRef(works));
        } else {
            PyErr_Clear();
        }
        Py_XDECREF(works);
    }
    Py_DECREF(tags);
    return result;
}

static bool is_received(PyObject *tag)
{
    PyObject *name = PyTuple_GET_ITEM(tag, TAG_NAME);
    return PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) && PyUnicode_READ_CHAR(name, 0) == 'R';
}

/* wait(works): for what is received, if sends and receives are one batch: the next action needs that. */
static PyObject *call_wait(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    staged_call *c = (staged_call *)self;
    PyObject *table = table_of(c, &c->spans), *tags = NULL;
    if (table && PyVectorcall_NARGS(flags) && (PyObject *)Py_TYPE(args[0]) == c->works) {
        tags = PyObject_GetAttr(args[0], word.tags);
        PyErr_Clear();
    }
    Py_XDECREF(table);
    Py_ssize_t count = tags && PyList_CheckExact(tags) ? PyList_GET_SIZE(tags) : 0;
    PyObject *chosen = count ? PyList_GET_ITEM(tags, 0) : NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *tag = PyList_GET_ITEM(tags, i);
        if (!is_tag(tag)) {
            chosen = NULL;
            break;
        }
        chosen = is_received(tag) && !is_received(chosen) ? tag : chosen;
    }
    if (chosen == NULL) {
        Py_XDECREF(tags);
        return do_otherwise(c, args, flags, names);
    }
    PyObject *span = PyTuple_GET_ITEM(chosen, TAG_WAIT), *sends = count > 1 ? PyLong_FromSsize_t(count - 1) : NULL;
    PyErr_Clear();
    span_begin_again(span);
    PyObject *result = PyObject_Vectorcall(c->function, args, flags, names);
    end_span(span, sends ? word.microbatch_and_sends : word.microbatch, PyTuple_GET_ITEM(chosen, TAG_MICROBATCH),
             sends);
    Py_XDECREF(sends);
    Py_DECREF(tags);
    return result;
}

/* ---- the type ---- */

static const struct {
    const char *name;
    vectorcallfunc call;
} ways[] = {{"action", call_action}, {"operations", call_operations}, {"batch", call_batch}, {"wait", call_wait}};

static PyObject *staged_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *words[] = {"way", "function", "otherwise", "name", "flag", "works", "failed", NULL};
    const char *way;
    PyObject *function, *otherwise, *name = NULL, *flag = NULL, *works = NULL, *failed = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sOO|$UUOO:StagedCall", words, &way, &function, &otherwise, &name,
                                     &flag, &works, &failed)) {
        return NULL;
    }
    vectorcallfunc call = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        call = strcmp(ways[i].name, way) == 0 ? ways[i].call : call;
    }
    if (call == NULL || (call == call_operations && name == NULL) ||
        ((call == call_batch || call == call_wait) && works == NULL)) {
        return PyErr_Format(PyExc_ValueError, "no way to call a function: %s", way);
    }
    staged_call *c = (staged_call *)type->tp_alloc(type, 0);
    if (c) {
        c->call = call;
        c->function = Py_NewRef(function);
        c->otherwise = Py_NewRef(otherwise);
        c->name = Py_XNewRef(name);
        c->flag = Py_XNewRef(flag);
        c->works = Py_XNewRef(works);
        c->failed = Py_XNewRef(failed);
    }
    return (PyObject *)c;
}

static int staged_traverse(PyObject *self, visitproc visit, void *arg)
{
    staged_call *c = (staged_call *)self;
    Py_VISIT(c->function);
    Py_VISIT(c->otherwise);
    Py_VISIT(c->spans);
    Py_VISIT(c->others);
    Py_VISIT(c->works);
    Py_VISIT(c->failed);
    Py_VISIT(c->dict);
    return 0;
}

static int staged_clear(PyObject *self)
{
    staged_call *c = (staged_call *)self;
    Py_CLEAR(c->function);
    Py_CLEAR(c->otherwise);
    Py_CLEAR(c->spans);
    Py_CLEAR(c->others);
    Py_CLEAR(c->name);
    Py_CLEAR(c->flag);
    Py_CLEAR(c->works);
    Py_CLEAR(c->failed);
    Py_CLEAR(c->dict);
    return 0;
}

static void staged_free(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((staged_call *)self)->weak) {
        PyObject_ClearWeakRefs(self);
    }
    staged_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *staged_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyMemberDef staged_members[] = {
    {"spans", T_OBJECT, offsetof(staged_call, spans), 0, "By stage, what is recorded now; None: `otherwise` is called."},
    {"others", T_OBJECT, offsetof(staged_call, others), 0, "The same where the flag is False."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef staged_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject staged_call_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "scalana.runtime._core.StagedCall",
    .tp_doc = "StagedCall(way, function, otherwise, *, name, flag, works, failed)\n--\n\n"
              "A function of an engine of pipelines in the span that `spans` has for its stage.",
    .tp_basicsize = sizeof(staged_call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = staged_new,
    .tp_dealloc = staged_free,
    .tp_traverse = staged_traverse,
    .tp_clear = staged_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(staged_call, call),
    .tp_descr_get = staged_bind,
    .tp_members = staged_members,
    .tp_getset = staged_getset,
    .tp_dictoffset = offsetof(staged_call, dict),
    .tp_weaklistoffset = offsetof(staged_call, weak),
};

bool staged_call_ready(void)
{
    word.stage_index = PyUnicode_InternFromString("stage_index");
    word.tag = PyUnicode_InternFromString("_scalana_tag");
    word.tags = PyUnicode_InternFromString("tags");
    word.microbatch = Py_BuildValue("(N)", PyUnicode_InternFromString("microbatch"));
    word.microbatch_and_sends = Py_BuildValue("(NN)", PyUnicode_InternFromString("microbatch"),
                                              PyUnicode_InternFromString("sends"));
    return word.stage_index && word.tag && word.tags && word.microbatch && word.microbatch_and_sends &&
           PyType_Ready(&staged_call_type) == 0;
}
