#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module/samples.h"

#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "module/arguments.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "sampler/sampler.h"
#include "threads/cores.h"

PyObject *core_sample_path(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t inside = 0;
    (void)module;
    if (count < 1 || count > 2) {
        return PyErr_Format(PyExc_TypeError, "sample_path() takes 1 or 2 arguments, not %zd", count);
    }
    if (count == 2 && !as_int64(args[1], &inside)) {
        return NULL;
    }
    PyObject *items = PySequence_Fast(args[0], "sample_path() takes a sequence of frames, outermost first");
    if (items == NULL) {
        return NULL;
    }
    uint32_t path = as_u32(inside);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && recorder_is_on(); i++) {
        PyObject *file, *name, *frame = PySequence_Fast_GET_ITEM(items, i);
        int first_line, line;
        if (!PyTuple_Check(frame) || !PyArg_ParseTuple(frame, "UUii", &file, &name, &first_line, &line)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "a frame is a tuple: file, name, first line, line");
            }
            break;
        }
        PyObject *file_bytes = text_bytes(file);
        PyObject *name_bytes = file_bytes ? text_bytes(name) : NULL;
        if (name_bytes) {
            const code_content_view view = {
                .file = PyBytes_AS_STRING(file_bytes),
                .file_size = (size_t)PyBytes_GET_SIZE(file_bytes),
                .name = PyBytes_AS_STRING(name_bytes),
                .name_size = (size_t)PyBytes_GET_SIZE(name_bytes),
                .first_line = as_u32(first_line),
            };
            recorder_lock();
            uint32_t code = recorder_code_locked(&view);
            path = code ? recorder_path_locked(path, code, as_u32(line)) : path;
            recorder_unlock();
        }
        Py_XDECREF(file_bytes);
        Py_XDECREF(name_bytes);
        if (PyErr_Occurred()) {
            break;
        }
    }
    Py_DECREF(items);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(path);
}

PyObject *core_add_sample(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[3];
    (void)module;
    if (!take_ints("add_sample", args, count, 3, 3, v)) {
        return NULL;
    }
    if (v[0] > 0 && v[0] <= INT_MAX && recorder_is_on()) {
        sampler_add((pid_t)v[0], as_u32(v[1]), as_u32(v[2]));
    }
    Py_RETURN_NONE;
}

/* ---- where threads run and memory lies ---- */

PyObject *core_core_times(PyObject *module, PyObject *unused)
{
    uint64_t used[MOST_CORES];
    size_t count = cores_used(used);
    (void)module, (void)unused;
    PyObject *result = PyTuple_New((Py_ssize_t)count);
    for (size_t core = 0; result != NULL && core < count; core++) {
        PyObject *ns = PyLong_FromUnsignedLongLong(used[core]);
        if (ns == NULL) {
            Py_CLEAR(result);
        } else {
            PyTuple_SET_ITEM(result, (Py_ssize_t)core, ns);
        }
    }
    return result;
}

/* Addresses of a sequence; NULL with an exception set. */
static void **addresses_of(PyObject *items, Py_ssize_t count)
{
    void **pages = PyMem_Calloc((size_t)count + 1, sizeof *pages);
    if (pages == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; pages != NULL && i < count; i++) {
        pages[i] = PyLong_AsVoidPtr(PySequence_Fast_GET_ITEM(items, i));
        if (PyErr_Occurred()) {
            PyMem_Free(pages);
            pages = NULL;
        }
    }
    return pages;
}

static PyObject *numbers_of(const int *values, Py_ssize_t count)
{
    PyObject *result = PyTuple_New(count);
    for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLong(values[i]);
        if (number == NULL) {
            Py_CLEAR(result);
        } else {
            PyTuple_SET_ITEM(result, i, number);
        }
    }
    return result;
}

PyObject *core_page_nodes(PyObject *module, PyObject *addresses)
{
    (void)module;
    PyObject *result = NULL, *items = PySequence_Fast(addresses, "page_nodes() takes a sequence of addresses");
    if (items == NULL) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
    void **pages = addresses_of(items, count);
    int *nodes = pages ? PyMem_Calloc((size_t)count + 1, sizeof *nodes) : NULL;
    if (pages && nodes == NULL) {
        PyErr_NoMemory();
    }
    if (nodes) { /* without nodes to move pages to, the kernel only says where they are */
        long failed;
        Py_BEGIN_ALLOW_THREADS;
        failed = syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, nodes, 0);
        Py_END_ALLOW_THREADS;
        result = failed ? PyErr_SetFromErrno(PyExc_OSError) : numbers_of(nodes, count);
    }
    PyMem_Free(nodes);
    PyMem_Free(pages);
    Py_DECREF(items);
    return result;
}
