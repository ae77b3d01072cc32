#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/public.h"

#include "frames/state.h"
#include "frames/types.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"

static size_t text_of(PyObject *object, char *buffer, size_t capacity)
{
    size_t size = 0;
    PyObject *bytes = object && PyUnicode_Check(object) ? PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape")
                                                        : NULL;
    if (bytes) {
        size = (size_t)PyBytes_GET_SIZE(bytes);
        size = size < capacity ? size : capacity;
        memcpy(buffer, PyBytes_AS_STRING(bytes), size);
        Py_DECREF(bytes);
    }
    PyErr_Clear();
    return size;
}

static uint32_t public_code(PyCodeObject *code, bool *own)
{
    char file[4096], name[1024];
    PyObject *file_object = PyObject_GetAttrString((PyObject *)code, "co_filename");
    PyObject *name_object = PyObject_GetAttrString((PyObject *)code, "co_qualname");
    if (name_object == NULL) {
        PyErr_Clear();
        name_object = PyObject_GetAttrString((PyObject *)code, "co_name");
    }
    code_content_view view = {.file = file, .name = name, .first_line = (uint32_t)code->co_firstlineno, .minor = 0};
    view.file_size = text_of(file_object, file, sizeof file);
    view.name_size = text_of(name_object, name, sizeof name);
    Py_XDECREF(file_object);
    Py_XDECREF(name_object);
    PyErr_Clear();
    *own = frames_file_is_own(file, view.file_size);
    recorder_lock();
    uint32_t id = recorder_code_locked(&view);
    recorder_unlock();
    return id;
}

uint32_t frames_public_path(void)
{
    path_step steps[FRAMES_MAX];
    size_t count = 0;
    bool inner = true;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int line = PyFrame_GetLineNumber(frame);
        bool own;
        uint32_t id = public_code(code, &own);
        Py_DECREF(code);
        inner = inner && own;
        if (!inner && count < FRAMES_MAX) {
            steps[count++] = (path_step){id, line > 0 ? (uint32_t)line : 0};
        }
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    PyErr_Restore(type, value, traceback);
    uint32_t path = 0;
    recorder_lock();
    while (count > 0) {
        count--;
        path = recorder_path_locked(path, steps[count].code, steps[count].lasti);
    }
    recorder_unlock();
    return path;
}
