/* scalana.runtime._core: the recorder, its sampler and the reader, for Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clocks.h"
#include "base/intern.h"
#include "base/memory.h"
#include "frames/frames.h"
#include "frames/lasting.h"
#include "frames/state.h"
#include "frames/threads.h"
#include "module/arguments.h"
#include "module/collections.h"
#include "module/read.h"
#include "module/samples.h"
#include "module/spans.h"
#include "record/kinds.h"
#include "recorder/api.h"
#include "recorder/call_arguments.h"
#include "recorder/calls.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "recorder/recorder.h"
#include "recorder/sockets.h"
#include "sampler/sampler.h"
#include "threads/notes.h"
#include "torch/calls.h"
#include "torch/waits.h"

/* ---- the library that records calls of MPI ---- */

static uint32_t path_of_self(void)
{
    thread_notes *own = own_notes();
    return own ? frames_path_of_self_unlocked(&own->cache) : 0;
}

static const recorder_api api = {
    .version = RECORDER_API_VERSION,
    .is_on = recorder_is_on,
    .generation = &recorder_generation_count,
    .meta = recorder_meta,
    .note = recorder_note,
    .group = recorder_group,
    .thread = recorder_thread,
    .event_at = recorder_event_at,
    .completions_at = recorder_completions_at,
    .count = recorder_count,
    .count_locked = recorder_count_locked,
    .on_flush = recorder_on_flush,
    .flush = recorder_flush,
    .path_of_self = path_of_self,
};

static void offer_to_native_library(void)
{
    void (*taker)(const recorder_api *) = NULL;
    *(void **)&taker = dlsym(RTLD_DEFAULT, RECORDER_API_TAKER);
    if (taker) {
        taker(&api);
    }
}

/* ---- start and stop ---- */

static PyObject *core_start(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "rate_hz", "budget_bytes", "flush_s", "native", NULL};
    PyObject *path = NULL;
    double rate_hz, flush_s = 1.0;
    long long budget;
    int native = 1;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&dL|dp:start", names, PyUnicode_FSConverter, &path, &rate_hz,
                                     &budget, &flush_s, &native)) {
        return NULL;
    }
    if (!(rate_hz >= 0.0 && rate_hz <= 10000.0) || !(flush_s > 0.0 && flush_s <= 3600.0) || budget <= 0) {
        Py_DECREF(path);
        return PyErr_Format(PyExc_ValueError, "rate_hz must be within 0 and 10000, flush_s within 0 and 3600, "
                                              "budget_bytes positive");
    }
    const char *why = NULL;
    bool sample = native && rate_hz > 0 && frames_prepare(&why) && memory_guarded_access() != MEMORY_NONE;
    int error = recorder_start(PyBytes_AS_STRING(path), (uint64_t)budget);
    if (error == 0) {
        if (sample) {
            frames_note_lasting();
        }
        error = sampler_start(rate_hz, flush_s, sample);
        if (error) {
            recorder_stop(-1);
        }
    }
    if (error) {
        errno = error;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AS_STRING(path));
        Py_DECREF(path);
        return NULL;
    }
    Py_DECREF(path);
    offer_to_native_library();
    Py_RETURN_NONE;
}

static PyObject *core_stop(PyObject *module, PyObject *args)
{
    int status = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "|i:stop", &status)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    sampler_stop();
    recorder_stop(status);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *core_flush(PyObject *module, PyObject *args)
{
    unsigned long long after_ns = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "|K:flush", &after_ns)) {
        return NULL;
    }
    if (!sampler_flush_later(after_ns)) {
        Py_BEGIN_ALLOW_THREADS;
        recorder_flush();
        Py_END_ALLOW_THREADS;
    }
    Py_RETURN_NONE;
}

static PyObject *core_count_sockets(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    sockets_look();
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *core_set_rate(PyObject *module, PyObject *rate)
{
    double rate_hz = PyFloat_AsDouble(rate);
    (void)module;
    if (rate_hz == -1.0 && PyErr_Occurred()) {
        return NULL;
    }
    if (!(rate_hz > 0.0 && rate_hz <= 10000.0)) {
        return PyErr_Format(PyExc_ValueError, "set_rate() takes a rate above 0 and up to 10000");
    }
    sampler_set_rate(rate_hz);
    Py_RETURN_NONE;
}

static PyObject *core_supported(PyObject *module, PyObject *unused)
{
    const char *why;
    (void)module, (void)unused;
    return PyBool_FromLong(frames_prepare(&why) && memory_guarded_access() != MEMORY_NONE);
}

static PyObject *core_interpreter(PyObject *module, PyObject *unused)
{
    char text[1024];
    (void)module, (void)unused;
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)frames_describe(text, sizeof text));
}

/* ---- definitions ---- */

static PyObject *core_meta(PyObject *module, PyObject *args)
{
    PyObject *key, *value;
    (void)module;
    if (!PyArg_ParseTuple(args, "UU:meta", &key, &value)) {
        return NULL;
    }
    PyObject *key_bytes = text_bytes(key);
    PyObject *value_bytes = key_bytes ? text_bytes(value) : NULL;
    if (value_bytes) {
        recorder_meta(PyBytes_AS_STRING(key_bytes), (size_t)PyBytes_GET_SIZE(key_bytes),
                      PyBytes_AS_STRING(value_bytes), (size_t)PyBytes_GET_SIZE(value_bytes));
    }
    Py_XDECREF(key_bytes);
    Py_XDECREF(value_bytes);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *core_note(PyObject *module, PyObject *text)
{
    (void)module;
    if (!PyUnicode_Check(text)) {
        return PyErr_Format(PyExc_TypeError, "note() takes a str");
    }
    PyObject *bytes = text_bytes(text);
    if (bytes == NULL) {
        return NULL;
    }
    recorder_note(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

static PyObject *core_group(PyObject *module, PyObject *args)
{
    PyObject *name, *ranks;
    long long my_rank;
    (void)module;
    if (!PyArg_ParseTuple(args, "ULO:group", &name, &my_rank, &ranks)) {
        return NULL;
    }
    PyObject *items = PySequence_Fast(ranks, "group() takes a sequence of ranks");
    PyObject *bytes = items ? text_bytes(name) : NULL;
    uint32_t *numbers = NULL;
    PyObject *result = NULL;
    if (bytes) {
        Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
        numbers = PyMem_Malloc((size_t)(count ? count : 1) * sizeof *numbers);
        if (numbers == NULL) {
            PyErr_NoMemory();
        } else {
            Py_ssize_t i = 0;
            int64_t value = 0;
            while (i < count && as_int64(PySequence_Fast_GET_ITEM(items, i), &value)) {
                numbers[i++] = as_u32(value);
            }
            if (i == count) {
                result = PyLong_FromUnsignedLong(recorder_group(PyBytes_AS_STRING(bytes),
                                                                (size_t)PyBytes_GET_SIZE(bytes), as_u32(my_rank),
                                                                (uint32_t)count, numbers));
            }
        }
    }
    PyMem_Free(numbers);
    Py_XDECREF(bytes);
    Py_XDECREF(items);
    return result;
}

/* ---- communication ---- */

/* Messages that follow each other as fast as that are not worth a question to the kernel each. */
#define HANDING_NS UINT64_C(200000)

/* The first eight arguments of begin and event_at. */
static call_arguments call_of(const int64_t *v)
{
    return (call_arguments){
        .operation = as_u32(v[0]),
        .group = as_u32(v[1]),
        .seq = not_negative(v[2]),
        .peer = v[3],
        .tag = v[4],
        .nbytes = not_negative(v[5]),
        .flags = (uint32_t)(v[6] & 0xff),
        .completes = not_negative(v[7]),
    };
}

static PyObject *core_begin(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[8] = {0};
    (void)module;
    if (!take_ints("begin", args, count, 7, 8, v)) {
        return NULL;
    }
    uint64_t id = 0;
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        const call_arguments call = call_of(v);
        uint32_t path = frames_path_of_self(&own->cache);
        uint64_t now = clock_wall_ns();
        bool remote = call.operation >= OPERATION_SUBMIT && call.operation <= OPERATION_NEXT_BATCH;
        id = recorder_begin(&call, own->tid, own->index, path, now,
                            remote ? own_cpu_within(own, now, HANDING_NS) : clock_own_cpu_ns());
    }
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *core_end(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[2] = {0, -1};
    (void)module;
    if (!take_ints("end", args, count, 1, 2, v)) {
        return NULL;
    }
    thread_notes *own = v[0] > 0 && recorder_is_on() ? own_notes() : NULL;
    if (own) {
        recorder_end((uint64_t)v[0], v[1], own->tid);
    }
    Py_RETURN_NONE;
}

/* Ids that lie on the stack; more than that are rare. */
#define FEW_IDS 32

static PyObject *core_end_as(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t few[FEW_IDS + 1] = {0};
    (void)module;
    int64_t *v = count > FEW_IDS ? PyMem_Calloc((size_t)count + 1, sizeof *v) : few;
    if (v == NULL) {
        return PyErr_NoMemory();
    }
    bool valid = take_ints("end_as", args, count, 1, PY_SSIZE_T_MAX, v);
    thread_notes *own = valid && v[0] > 0 && recorder_is_on() ? own_notes() : NULL;
    if (own) {
        uint64_t event = (uint64_t)v[0];
        for (Py_ssize_t i = 1; i < count; i++) {
            v[i] = v[i] > 0 ? v[i] : 0;
        }
        uint64_t now = clock_wall_ns();
        recorder_end_as(event, (const uint64_t *)v + 1, (size_t)count - 1, own->tid, now, own_cpu_near(own, now));
    }
    if (v != few) {
        PyMem_Free(v);
    }
    if (!valid) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *core_hand(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[3] = {0};
    (void)module;
    if (!take_ints("hand", args, count, 2, 3, v)) {
        return NULL;
    }
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        const call_arguments call = {
            .operation = as_u32(v[0]), .seq = not_negative(v[1]), .peer = -1, .nbytes = not_negative(v[2]),
            .flags = EVENT_POST,
        };
        uint64_t now = clock_wall_ns();
        uint32_t path = frames_path_of_self(&own->cache);
        recorder_event_at(&call, own->index, path, now, now, own_cpu_within(own, now, HANDING_NS), 0);
    }
    Py_RETURN_NONE;
}

static PyObject *core_asked(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[1] = {0};
    (void)module;
    if (!take_ints("asked", args, count, 1, 1, v)) {
        return NULL;
    }
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        const total_amount amount = {.path = frames_path_of_self(&own->cache), .operation = as_u32(v[0]), .calls = 1};
        recorder_count(&amount);
    }
    Py_RETURN_NONE;
}

static PyObject *core_event_at(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[13] = {0};
    (void)module;
    if (!take_ints("event_at", args, count, 12, 13, v)) {
        return NULL;
    }
    uint64_t id = 0;
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        const call_arguments call = call_of(v);
        uint32_t path = count > 12 ? as_u32(v[12]) : frames_path_of_self(&own->cache);
        id = recorder_event_at(&call, own->index, path, not_negative(v[8]), not_negative(v[9]), not_negative(v[10]),
                               not_negative(v[11]));
    }
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *core_own_path(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    return PyLong_FromUnsignedLong(own ? frames_path_of_self(&own->cache) : 0);
}

static PyObject *core_done(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[2] = {0, -1};
    (void)module;
    if (!take_ints("done", args, count, 1, 2, v)) {
        return NULL;
    }
    recorder_done(not_negative(v[0]), v[1]);
    Py_RETURN_NONE;
}

static PyObject *core_now(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(clock_wall_ns());
}

static PyObject *core_thread_cpu(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(clock_own_cpu_ns());
}

static PyObject *core_moment(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    uint64_t now = clock_wall_ns();
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    return Py_BuildValue("(KK)", (unsigned long long)now,
                         (unsigned long long)(own ? own_cpu_within(own, now, HANDING_NS) : clock_own_cpu_ns()));
}

/* ---- module ---- */

static PyMethodDef methods[] = {
    {"start", (PyCFunction)(void (*)(void))core_start, METH_VARARGS | METH_KEYWORDS,
     "start(path, rate_hz, budget_bytes, flush_s=1.0, native=True): begin to record into the new file path."},
    {"stop", core_stop, METH_VARARGS, "stop(status=-1): write what is pending and end the record."},
    {"flush", core_flush, METH_VARARGS,
     "flush(after_ns=0, /): write what is pending; soon, where that was done last less than after_ns ago."},
    {"count_sockets", core_count_sockets, METH_NOARGS,
     "count_sockets(): ask the kernel what TCP connections moved, before some are closed; a flush does, too."},
    {"set_rate", core_set_rate, METH_O, "set_rate(rate_hz): sample this often from now on."},
    {"supported", core_supported, METH_NOARGS, "supported(): whether the frames of this interpreter can be sampled."},
    {"interpreter", core_interpreter, METH_NOARGS, "interpreter(): where its objects lie in memory, in words."},
    {"meta", core_meta, METH_VARARGS, "meta(key, value): say something about the process."},
    {"note", core_note, METH_O, "note(text): say what could not be recorded."},
    {"group", core_group, METH_VARARGS, "group(name, my_rank, ranks): define a communicator, returns its id."},
    {"begin", (PyCFunction)(void (*)(void))core_begin, METH_FASTCALL,
     "begin(op, group, seq, peer, tag, nbytes, flags, completes=0): enter a call, returns its event."},
    {"end", (PyCFunction)(void (*)(void))core_end, METH_FASTCALL, "end(event, source=-1): leave a call."},
    {"end_as", (PyCFunction)(void (*)(void))core_end_as, METH_FASTCALL,
     "end_as(event, *ids): leave a call that has taken what has these ids; without any it is dropped."},
    {"asked", (PyCFunction)(void (*)(void))core_asked, METH_FASTCALL,
     "asked(op): ask whether something is there; a call that only counts."},
    {"hand", (PyCFunction)(void (*)(void))core_hand, METH_FASTCALL,
     "hand(op, id, nbytes=0): give something that is taken by its id."},
    {"event_at", (PyCFunction)(void (*)(void))core_event_at, METH_FASTCALL,
     "event_at(op, group, seq, peer, tag, nbytes, flags, completes, enter_ns, exit_ns, cpu_enter_ns, cpu_ns, path=own):\n"
     "a call of the calling thread that is known only once it is over, returns its event."},
    {"own_path", core_own_path, METH_NOARGS, "own_path(): id of the call path of the calling thread."},
    {"done", (PyCFunction)(void (*)(void))core_done, METH_FASTCALL,
     "done(event, source=-1): a posted operation is complete."},
    {"now", core_now, METH_NOARGS, "now(): CLOCK_MONOTONIC in ns."},
    {"thread_cpu", core_thread_cpu, METH_NOARGS, "thread_cpu(): CPU time of the calling thread in ns."},
    {"moment", core_moment, METH_NOARGS,
     "moment(): now(), and thread_cpu() then, as far as it can be told without asking the kernel each time."},
    {"sample_path", (PyCFunction)(void (*)(void))core_sample_path, METH_FASTCALL,
     "sample_path(frames, inside=0): id of a path of (file, name, first line, line), outermost first, inside of "
     "another."},
    {"add_sample", (PyCFunction)(void (*)(void))core_add_sample, METH_FASTCALL,
     "add_sample(tid, path, state): a thread was seen here now."},
    {"read", core_read, METH_VARARGS,
     "read(path, code_type, codes, code_rows, ranks): decode a record file; the last three are what files have in "
     "common."},
    {"split", core_split, METH_O,
     "split(payload): what later blocks need of a block of a record, and what speaks of its own time."},
    {NULL, NULL, 0, NULL},
};

/* The last resort, when nobody has called stop: the interpreter is gone by then, this needs nothing of it. */
static void stop_at_exit(void)
{
    sampler_stop();
    recorder_stop(-1);
}

static int core_exec(PyObject *module)
{
    static bool registered;
    PyObject *file = PyObject_GetAttrString(module, "__file__");
    const char *text = file ? PyUnicode_AsUTF8(file) : NULL;
    const char *slash = text ? strrchr(text, '/') : NULL;
    if (slash) {
        char *directory = strndup(text, (size_t)(slash - text));
        if (directory) {
            frames_set_own_directory(directory);
            free(directory);
        }
    }
    PyErr_Clear();
    Py_XDECREF(file);
    if (!registered) {
        registered = true;
        Py_AtExit(stop_at_exit);
    }
    bool added = add_spans(module) && add_collections(module) && PyModule_AddFunctions(module, torch_methods) == 0;
    return added ? PyModule_AddFunctions(module, torch_wait_methods) : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)core_exec},
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "scalana.runtime._core",
    .m_doc = "Recorder, sampler and reader of scalana's records.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
