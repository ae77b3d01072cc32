#include "module/read.h"

#include <errno.h>
#include <string.h>

#include "record/content.h"
#include "record/decode.h"
#include "record/reader.h"

static PyObject *as_text(text t)
{
    return PyUnicode_DecodeUTF8((const char *)t.at, (Py_ssize_t)t.size, "surrogateescape");
}

/* Steals `value`; sets it under `key`. False on error, also when `value` is NULL. */
static bool set_item(PyObject *dict, const char *key, PyObject *value)
{
    if (value == NULL) {
        return false;
    }
    int failed = PyDict_SetItemString(dict, key, value);
    Py_DECREF(value);
    return failed == 0;
}

/* Steals `bytes`, which may be NULL; a memoryview of it as integers of `width` bytes. */
static PyObject *as_integers(PyObject *bytes, size_t width)
{
    PyObject *view = bytes ? PyMemoryView_FromObject(bytes) : NULL;
    Py_XDECREF(bytes);
    PyObject *result = NULL;
    if (view) {
        const char *format = width == 1 ? "b" : width == 2 ? "h" : width == 4 ? "i" : "q";
        result = PyObject_CallMethod(view, "cast", "s", format);
        Py_DECREF(view);
    }
    return result;
}

static PyObject *table(const column *columns, int count)
{
    PyObject *result = PyTuple_New(count);
    for (int i = 0; result && i < count; i++) {
        const column *c = &columns[i];
        PyObject *values =
            as_integers(PyBytes_FromStringAndSize(c->data, (Py_ssize_t)(c->count * c->width)), c->width);
        if (values == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, values);
    }
    return result;
}

/* What the records of a run have in common is made once. */
typedef struct {
    PyObject *code_type; /* called with file, name, first line, minor version and line table */
    PyObject *codes;     /* list: its objects, each once */
    PyObject *code_rows; /* dict: their rows in it by what stands in the file */
    PyObject *ranks;     /* dict: members of groups, likewise */
} shared_objects;

/* Row of a code in the list of all, which it is appended to if it is new. -1 on error. */
static Py_ssize_t code_row(const shared_objects *shared, const read_code *c)
{
    PyObject *key = PyBytes_FromStringAndSize((const char *)c->content.at, (Py_ssize_t)c->content.size);
    PyObject *known = key ? PyDict_GetItemWithError(shared->code_rows, key) : NULL;
    Py_ssize_t row = known ? PyLong_AsSsize_t(known) : -1;
    if (known == NULL && !PyErr_Occurred()) {
        PyObject *code = PyObject_CallFunction(shared->code_type, "NNKKy#", as_text(c->file), as_text(c->name),
                                               (unsigned long long)c->first_line, (unsigned long long)c->minor,
                                               (const char *)c->table.at, (Py_ssize_t)c->table.size);
        Py_ssize_t next = PyList_GET_SIZE(shared->codes); /* from here to its entry no other thread has a turn */
        if (code && PyList_Append(shared->codes, code) == 0) {
            PyObject *number = PyLong_FromSsize_t(next);
            if (number && PyDict_SetItem(shared->code_rows, key, number) == 0) {
                row = next;
            }
            Py_XDECREF(number);
        }
        Py_XDECREF(code);
    }
    Py_XDECREF(key);
    return row;
}

/* World ranks of the members of a group: the same object for all that stand alike in their files. */
static PyObject *group_ranks(const shared_objects *shared, const read_group *g)
{
    PyObject *key =
        Py_BuildValue("(Oy#)", g->strided ? Py_True : Py_False, (const char *)g->ranks.at, (Py_ssize_t)g->ranks.size);
    PyObject *ranks = key ? PyDict_GetItemWithError(shared->ranks, key) : NULL;
    Py_XINCREF(ranks);
    if (ranks == NULL && !PyErr_Occurred()) {
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(g->members * sizeof(int32_t)));
        if (bytes) {
            record_group_ranks(g, (int32_t *)PyBytes_AS_STRING(bytes));
        }
        ranks = as_integers(bytes, sizeof(int32_t));
        if (ranks && PyDict_SetItem(shared->ranks, key, ranks) < 0) {
            Py_CLEAR(ranks);
        }
    }
    Py_XDECREF(key);
    return ranks;
}

typedef PyObject *(*row_builder)(const record_content *content, size_t row);

static PyObject *row_list(const record_content *content, size_t count, row_builder build)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *row = build(content, i);
        if (row == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

static PyObject *meta_row(const record_content *content, size_t row)
{
    const read_meta *m = (const read_meta *)content->meta.rows + row;
    return Py_BuildValue("(NN)", as_text(m->key), as_text(m->value));
}

/* Ids of the codes of a record, and their rows in the list of all: two columns. */
static PyObject *code_columns(const record_content *content, const shared_objects *shared)
{
    Py_ssize_t size = (Py_ssize_t)(content->codes.count * sizeof(int64_t));
    PyObject *ids = PyBytes_FromStringAndSize(NULL, size);
    PyObject *rows = PyBytes_FromStringAndSize(NULL, size);
    bool good = ids && rows;
    for (size_t i = 0; good && i < content->codes.count; i++) {
        const read_code *c = (const read_code *)content->codes.rows + i;
        int64_t row = code_row(shared, c);
        int64_t id = (int64_t)c->id;
        memcpy(PyBytes_AS_STRING(ids) + i * sizeof id, &id, sizeof id);
        memcpy(PyBytes_AS_STRING(rows) + i * sizeof row, &row, sizeof row);
        good = row >= 0;
    }
    if (!good) {
        Py_CLEAR(ids);
        Py_CLEAR(rows);
    }
    return ids ? Py_BuildValue("(NN)", as_integers(ids, sizeof(int64_t)), as_integers(rows, sizeof(int64_t))) : NULL;
}

static PyObject *thread_row(const record_content *content, size_t row)
{
    const read_thread *t = (const read_thread *)content->threads.rows + row;
    return Py_BuildValue("(KKNK)", (unsigned long long)t->index, (unsigned long long)t->tid, as_text(t->name),
                         (unsigned long long)t->flags);
}

static PyObject *group_list(const record_content *content, const shared_objects *shared)
{
    PyObject *list = PyList_New((Py_ssize_t)content->groups.count);
    for (size_t i = 0; list && i < content->groups.count; i++) {
        const read_group *g = (const read_group *)content->groups.rows + i;
        PyObject *ranks = group_ranks(shared, g);
        PyObject *row = ranks ? Py_BuildValue("(KNKN)", (unsigned long long)g->id, as_text(g->name),
                                              (unsigned long long)g->my_rank, ranks)
                              : NULL;
        if (row == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

static PyObject *note_row(const record_content *content, size_t row)
{
    return as_text(((const text *)content->notes.rows)[row]);
}

static PyObject *lane_row(const record_content *content, size_t row)
{
    const read_lane *l = (const read_lane *)content->lanes.rows + row;
    return Py_BuildValue("(KLN)", (unsigned long long)l->kind, (long long)l->thread, as_text(l->name));
}

static PyObject *name_row(const record_content *content, size_t row)
{
    return as_text(((const text *)content->names.rows)[row]);
}

static PyObject *trouble_row(const record_content *content, size_t row)
{
    return PyUnicode_FromString(((char *const *)content->troubles.rows)[row]);
}

static PyObject *as_dict(const record_content *r, const shared_objects *shared)
{
    PyObject *d = PyDict_New();
    if (d && set_item(d, "meta", row_list(r, r->meta.count, meta_row)) &&
        set_item(d, "codes", code_columns(r, shared)) &&
        set_item(d, "threads", row_list(r, r->threads.count, thread_row)) &&
        set_item(d, "groups", group_list(r, shared)) &&
        set_item(d, "notes", row_list(r, r->notes.count, note_row)) &&
        set_item(d, "names", row_list(r, r->names.count, name_row)) &&
        set_item(d, "troubles", row_list(r, r->troubles.count, trouble_row)) &&
        set_item(d, "paths", table(r->paths, PATH_COLUMNS)) &&
        set_item(d, "dense_paths", PyBool_FromLong(r->dense_paths)) &&
        set_item(d, "samples", table(r->samples, SAMPLE_COLUMNS)) &&
        set_item(d, "events", table(r->events, EVENT_COLUMNS)) &&
        set_item(d, "done", table(r->done, DONE_COLUMNS)) &&
        set_item(d, "lanes", row_list(r, r->lanes.count, lane_row)) &&
        set_item(d, "unwritten", table(r->unwritten, UNWRITTEN_COLUMNS)) &&
        set_item(d, "spans", table(r->spans, SPAN_COLUMNS)) &&
        set_item(d, "attributes", table(r->attributes, ATTRIBUTE_COLUMNS)) &&
        set_item(d, "span_totals", table(r->span_totals, SPAN_TOTAL_COLUMNS)) &&
        set_item(d, "totals", table(r->totals, TOTAL_COLUMNS)) &&
        set_item(d, "open", table(r->open, OPEN_COLUMNS)) &&
        set_item(d, "ended", PyBool_FromLong(r->ended)) &&
        set_item(d, "status", PyLong_FromLongLong(r->status)) &&
        set_item(d, "first_ns", PyLong_FromUnsignedLongLong(r->first_ns)) &&
        set_item(d, "last_ns", PyLong_FromUnsignedLongLong(r->last_ns)) &&
        set_item(d, "blocks", PyLong_FromUnsignedLongLong(r->blocks))) {
        return d;
    }
    Py_XDECREF(d);
    return NULL;
}

PyObject *core_read(PyObject *module, PyObject *arguments)
{
    PyObject *name = NULL;
    shared_objects shared;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O&OO!O!O!", PyUnicode_FSConverter, &name, &shared.code_type, &PyList_Type,
                          &shared.codes, &PyDict_Type, &shared.code_rows, &PyDict_Type, &shared.ranks)) {
        return NULL;
    }
    record_content content;
    enum read_result result;
    int error;
    Py_BEGIN_ALLOW_THREADS;
    result = record_read(PyBytes_AS_STRING(name), &content);
    error = errno;
    Py_END_ALLOW_THREADS;
    PyObject *dict = NULL;
    switch (result) {
    case READ_OK:
        dict = as_dict(&content, &shared);
        break;
    case READ_SYSTEM_ERROR:
        errno = error;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AS_STRING(name));
        break;
    case READ_NOT_A_RECORD:
        PyErr_Format(PyExc_ValueError, "%s: not a record of scalana", PyBytes_AS_STRING(name));
        break;
    case READ_OTHER_VERSION:
        PyErr_Format(PyExc_ValueError, "%s: a record of a newer version of scalana; read it with that version", PyBytes_AS_STRING(name));
        break;
    case READ_NO_MEMORY:
    default:
        PyErr_NoMemory();
        break;
    }
    record_content_free(&content);
    Py_DECREF(name);
    return dict;
}

PyObject *core_split(PyObject *module, PyObject *payload)
{
    Py_buffer view;
    (void)module;
    if (PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *definitions = PyBytes_FromStringAndSize(NULL, view.len), *rest = PyBytes_FromStringAndSize(NULL, view.len);
    split_result result = {0};
    bool good = definitions && rest;
    if (good) {
        uint8_t *to[] = {(uint8_t *)PyBytes_AS_STRING(definitions), (uint8_t *)PyBytes_AS_STRING(rest)};
        Py_BEGIN_ALLOW_THREADS;
        good = record_split(view.buf, (size_t)view.len, to[0], to[1], &result);
        Py_END_ALLOW_THREADS;
        if (!good) {
            PyErr_NoMemory();
        }
    }
    PyBuffer_Release(&view);
    if (good && _PyBytes_Resize(&definitions, (Py_ssize_t)result.definitions) == 0 &&
        _PyBytes_Resize(&rest, (Py_ssize_t)result.rest) == 0) {
        return Py_BuildValue("NNKKKN", definitions, rest, (unsigned long long)result.first_ns,
                             (unsigned long long)result.last_ns, (unsigned long long)result.progress_ns,
                             PyBool_FromLong(result.ended));
    }
    Py_XDECREF(definitions);
    Py_XDECREF(rest);
    return NULL;
}
