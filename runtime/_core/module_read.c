#include "module_read.h"

#include <errno.h>

#include "record_reader.h"

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

static PyObject *column_bytes(const column *c)
{
    return PyBytes_FromStringAndSize(c->data, (Py_ssize_t)(c->count * c->width));
}

static PyObject *table(const column *columns, int count)
{
    PyObject *result = PyTuple_New(count);
    for (int i = 0; result && i < count; i++) {
        PyObject *bytes = column_bytes(&columns[i]);
        if (bytes == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, bytes);
    }
    return result;
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

static PyObject *code_row(const record_content *content, size_t row)
{
    const read_code *c = (const read_code *)content->codes.rows + row;
    return Py_BuildValue("(KNNKKy#)", (unsigned long long)c->id, as_text(c->file), as_text(c->name),
                         (unsigned long long)c->first_line, (unsigned long long)c->minor, (const char *)c->table.at,
                         (Py_ssize_t)c->table.size);
}

static PyObject *thread_row(const record_content *content, size_t row)
{
    const read_thread *t = (const read_thread *)content->threads.rows + row;
    return Py_BuildValue("(KKNK)", (unsigned long long)t->index, (unsigned long long)t->tid, as_text(t->name),
                         (unsigned long long)t->flags);
}

static PyObject *group_row(const record_content *content, size_t row)
{
    const read_group *g = (const read_group *)content->groups.rows + row;
    const int32_t *ranks = (const int32_t *)content->ranks.data;
    return Py_BuildValue("(KNKy#)", (unsigned long long)g->id, as_text(g->name), (unsigned long long)g->my_rank,
                         g->members ? (const char *)(ranks + g->first_rank) : "",
                         (Py_ssize_t)(g->members * sizeof *ranks));
}

static PyObject *note_row(const record_content *content, size_t row)
{
    return as_text(((const text *)content->notes.rows)[row]);
}

static PyObject *name_row(const record_content *content, size_t row)
{
    return as_text(((const text *)content->names.rows)[row]);
}

static PyObject *trouble_row(const record_content *content, size_t row)
{
    return PyUnicode_FromString(((char *const *)content->troubles.rows)[row]);
}

static PyObject *as_dict(const record_content *r)
{
    PyObject *d = PyDict_New();
    if (d && set_item(d, "meta", row_list(r, r->meta.count, meta_row)) &&
        set_item(d, "codes", row_list(r, r->codes.count, code_row)) &&
        set_item(d, "threads", row_list(r, r->threads.count, thread_row)) &&
        set_item(d, "groups", row_list(r, r->groups.count, group_row)) &&
        set_item(d, "notes", row_list(r, r->notes.count, note_row)) &&
        set_item(d, "names", row_list(r, r->names.count, name_row)) &&
        set_item(d, "troubles", row_list(r, r->troubles.count, trouble_row)) &&
        set_item(d, "paths", table(r->paths, PATH_COLUMNS)) &&
        set_item(d, "samples", table(r->samples, SAMPLE_COLUMNS)) &&
        set_item(d, "events", table(r->events, EVENT_COLUMNS)) &&
        set_item(d, "done", table(r->done, DONE_COLUMNS)) &&
        set_item(d, "intervals", table(r->intervals, INTERVAL_COLUMNS)) &&
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

PyObject *core_read(PyObject *module, PyObject *path)
{
    PyObject *name = NULL;
    (void)module;
    if (!PyUnicode_FSConverter(path, &name)) {
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
        dict = as_dict(&content);
        break;
    case READ_SYSTEM_ERROR:
        errno = error;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AS_STRING(name));
        break;
    case READ_NOT_A_RECORD:
        PyErr_Format(PyExc_ValueError, "%s: not a record of scalana", PyBytes_AS_STRING(name));
        break;
    case READ_OTHER_VERSION:
        PyErr_Format(PyExc_ValueError, "%s: a record of another version", PyBytes_AS_STRING(name));
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
