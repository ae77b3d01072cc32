#define PY_SSIZE_T_CLEAN
#include "torch/calls.h"

#include "base/clocks.h"
#include "frames/frames.h"
#include "frames/types.h"
#include "record/kinds.h"
#include "recorder/call_arguments.h"
#include "recorder/calls.h"
#include "recorder/lock.h"
#include "threads/notes.h"
#include "torch/api.h"
#include "torch/posts.h"

/* ---- who calls ---- */

#define NEAR_FRAMES 3 /* a message function of torch calls another one, which calls the operator */
#define MOST_CODES 4
#define MOST_GLOBALS 64

static uintptr_t public_globals, message_codes[MOST_CODES], autograd_globals[MOST_GLOBALS];
static size_t autograd_count;

/* What the Python frames around a call tell of it. */
typedef struct {
    bool from_public; /* torch.distributed's own module makes it */
    bool waits;       /* and will wait for it at once, if it is not asynchronous */
    bool from_cxx;    /* during a backward pass: not a hook in Python makes it */
} call_origin;

static call_origin origin_of_call(bool message)
{
    frame_caller callers[NEAR_FRAMES];
    size_t count = frames_callers_of_self(callers, NEAR_FRAMES);
    call_origin origin = {.from_public = count > 0 && callers[0].globals == public_globals, .from_cxx = count == 0};
    origin.waits = origin.from_public && !message;
    for (size_t i = 0; i < count && message; i++) {
        for (size_t k = 0; k < MOST_CODES; k++) {
            origin.waits = origin.waits || (message_codes[k] && callers[i].code == message_codes[k]);
        }
    }
    /* The reducer's caller is the engine, which Python entered in torch.autograd, or nobody on a thread of the engine. */
    for (size_t i = 0; i < autograd_count && count > 0; i++) {
        origin.from_cxx = origin.from_cxx || callers[0].globals == autograd_globals[i];
    }
    return origin;
}

/* ---- entering calls ---- */

/* Ends a call in which the thread may have been blocked. */
static void end_call(thread_notes *own, uint64_t event)
{
    uint64_t now = clock_wall_ns();
    recorder_end_at(event, -1, own->tid, now, own_cpu_at(own, now));
}

static void end_waiting(thread_notes *own)
{
    uint64_t event = own->waiting;
    own->waiting = 0;
    own->any_source = NULL;
    end_call(own, event);
}

/* Fills in group, peer and number. NULL when the process group is not known. */
static const torch_group *number_call(const scalana_torch_call *call, call_arguments *arguments)
{
    recorder_lock();
    const torch_group *group = torch_group_at_locked(call->group);
    if (group) {
        arguments->group = group->id;
        arguments->peer = torch_world_rank(group, call->peer);
        if (!call->message) {
            arguments->seq = torch_number_locked(group->key, 0, -1, 0);
        } else if (!call->any_source) {
            arguments->seq = torch_number_locked(group->key, call->operation, arguments->peer, call->tag);
        }
    }
    recorder_unlock();
    return group;
}

static scalana_torch_entry enter_call(const scalana_torch_call *call, call_origin origin, bool unlocked)
{
    scalana_torch_entry entry = {0, false, origin.from_public};
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    call_arguments arguments = {
        .operation = call->operation, .peer = -1, .tag = call->tag, .nbytes = (uint64_t)call->nbytes};
    const torch_group *group = own ? number_call(call, &arguments) : NULL;
    if (group == NULL) {
        return entry;
    }
    if (own->waiting) { /* its wait did not come */
        end_waiting(own);
    }
    entry.post = call->has_work && !(origin.waits && !call->asynchronous);
    arguments.flags = (entry.post ? EVENT_POST : EVENT_BLOCKING) | (call->any_source ? EVENT_ANY_SOURCE : 0u);
    uint64_t scope = 0;
    if (entry.post) {
        bool in_backward = call->graph_task >= 0 && own->backward && own->graph_task == call->graph_task;
        scope = own->torch_call ? own->torch_call : in_backward ? own->backward : 0;
        arguments.flags |= own->torch_call || (scope && origin.from_cxx) ? EVENT_FROM_CXX : 0u;
    } else {
        own->any_source = call->any_source ? group : NULL;
    }
    uint32_t path = unlocked ? frames_path_of_self_unlocked(&own->cache) : frames_path_of_self(&own->cache);
    uint64_t now = clock_wall_ns();
    uint64_t event = recorder_begin(&arguments, own->tid, own->index, path, now, own_cpu_near(own, now));
    if (event && entry.post) {
        torch_post_entered(&(torch_post){.event = event, .group = group, .group_id = group->id, .operation = call->operation,
                                         .seq = arguments.seq, .nbytes = arguments.nbytes, .peer = arguments.peer,
                                         .tag = arguments.tag, .any_source = call->any_source, .tid = own->tid,
                                         .scope = scope, .enter_ns = now});
    }
    entry.event = event ? event : UINT64_MAX; /* it has its number, and is not to get another one */
    return entry;
}

static void leave_call(uint64_t event, bool waits)
{
    thread_notes *own = event && recorder_is_on() ? own_notes() : NULL;
    if (own && waits) {
        own->waiting = event;
    } else if (own) {
        end_call(own, event);
    }
}

static bool posted(uint64_t event, const void *work)
{
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own == NULL) {
        return false;
    }
    uint64_t now = clock_wall_ns(), cpu = own_cpu_near(own, now);
    recorder_end_at(event, -1, own->tid, now, cpu);
    return torch_post_returned(event, work, now, cpu);
}

/* ---- waits ---- */

torch_wait torch_wait_entered(const void *work)
{
    torch_wait wait = {0};
    const thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own && own->waiting) {
        wait.blocking = own->waiting;
    } else if (own) {
        wait.post = torch_post_of(TOKEN_WORK, work, true);
        wait.event = wait.post ? torch_enter_wait(wait.post, false) : 0;
    }
    return wait;
}

uint64_t torch_wait_left(const torch_wait *wait, const void *work, bool returned)
{
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    uint64_t unknown = 0;
    if (own && wait->blocking && own->waiting == wait->blocking) {
        unknown = own->any_source && returned ? wait->blocking : 0;
        const torch_group *group = own->any_source;
        end_waiting(own);
        own->any_source = unknown ? group : NULL;
    } else if (own && wait->post) {
        end_call(own, wait->event);
        if (!returned) {
            torch_post_known_by(TOKEN_WORK, work, wait->post); /* it may be tried again */
        } else {
            unknown = torch_post_is_from_anybody(wait->post) ? wait->post : 0;
        }
    }
    return unknown;
}

void torch_found_source(uint64_t event, int64_t member)
{
    thread_notes *own = own_notes();
    if (own && own->any_source) {
        recorder_done(event, torch_world_rank(own->any_source, member));
        own->any_source = NULL;
    } else {
        torch_post_found_source(event, member);
    }
}

static uint64_t enter_wait(const void *storage, bool unlocked)
{
    uint64_t post = torch_post_of(TOKEN_STORAGE, storage, true);
    return post ? torch_enter_wait(post, unlocked) : 0;
}

static void leave_wait(uint64_t event)
{
    thread_notes *own = event && recorder_is_on() ? own_notes() : NULL;
    if (own) {
        end_call(own, event);
    }
}

/* ---- for the kernels in C++ ---- */

static scalana_torch_entry enter_from_cxx(const scalana_torch_call *call)
{
    return enter_call(call, origin_of_call(call->message), true);
}

static void posted_result(uint64_t event, const void *storage)
{
    torch_post_known_by(TOKEN_STORAGE, storage, event);
}

static uint64_t enter_wait_from_cxx(const void *storage)
{
    return enter_wait(storage, true);
}

static void close_scope_from_cxx(uint64_t scope)
{
    torch_close_scope(scope, true);
}

static const scalana_torch_api api = {
    .version = SCALANA_TORCH_API_VERSION,
    .enter = enter_from_cxx,
    .leave = leave_call,
    .posted = posted,
    .posted_result = posted_result,
    .without_future = torch_post_without_future,
    .completed = torch_post_completed,
    .enter_wait = enter_wait_from_cxx,
    .leave_wait = leave_wait,
    .open_scope = torch_open_scope,
    .begin_scope = torch_begin_scope,
    .close_scope = close_scope_from_cxx,
    .drop_scope = torch_drop_scope,
};

static PyObject *core_torch_api(PyObject *module, PyObject *args)
{
    PyObject *globals, *codes, *autograd;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!:torch_api", &PyDict_Type, &globals, &PyTuple_Type, &codes, &PyTuple_Type,
                          &autograd)) {
        return NULL;
    }
    public_globals = (uintptr_t)globals;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(codes) && i < MOST_CODES; i++) {
        message_codes[i] = (uintptr_t)PyTuple_GET_ITEM(codes, i);
    }
    autograd_count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(autograd) && i < MOST_GLOBALS; i++) {
        autograd_globals[autograd_count++] = (uintptr_t)PyTuple_GET_ITEM(autograd, i);
    }
    return PyLong_FromVoidPtr((void *)&api);
}

/* ---- for the kernels in Python ---- */

/* Bits of torch_enter's third argument. */
enum call_bit {
    CALL_MESSAGE = 1,
    CALL_ANY_SOURCE = 2,
    CALL_HAS_WORK = 4,
    CALL_WAITS = 8, /* the caller will wait at once */
    CALL_FROM_CXX = 16
};

static bool take_numbers(PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted, int64_t *numbers)
{
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "takes %zd arguments, not %zd", wanted, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        numbers[i] = (int64_t)PyLong_AsUnsignedLongLongMask(args[i]);
    }
    return !PyErr_Occurred();
}

static PyObject *core_torch_enter(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[6];
    (void)module;
    if (count != 7 || !take_numbers(args + 1, count - 1, 6, v)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "torch_enter() takes 7 arguments");
    }
    const scalana_torch_call call = {
        .operation = (uint32_t)v[0],
        .message = v[1] & CALL_MESSAGE,
        .any_source = v[1] & CALL_ANY_SOURCE,
        .has_work = v[1] & CALL_HAS_WORK,
        .group = torch_wrapped_by(args[0]),
        .peer = v[2],
        .tag = v[3],
        .nbytes = v[4],
        .graph_task = v[5],
    };
    const call_origin origin = {.waits = v[1] & CALL_WAITS, .from_cxx = v[1] & CALL_FROM_CXX};
    scalana_torch_entry entry = enter_call(&call, origin, false);
    return PyLong_FromUnsignedLongLong(entry.event);
}

static PyObject *core_torch_leave(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[2];
    (void)module;
    if (!take_numbers(args, count, 2, v)) {
        return NULL;
    }
    leave_call((uint64_t)v[0], v[1]);
    Py_RETURN_NONE;
}

static PyObject *core_torch_posted(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[1];
    (void)module;
    if (count != 2 || !take_numbers(args, 1, 1, v)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "torch_posted() takes 2 arguments");
    }
    return PyBool_FromLong(posted((uint64_t)v[0], torch_wrapped_by(args[1])));
}

static PyObject *core_torch_posted_result(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[2];
    (void)module;
    if (!take_numbers(args, count, 2, v)) {
        return NULL;
    }
    posted_result((uint64_t)v[0], (const void *)(uintptr_t)v[1]);
    Py_RETURN_NONE;
}

static PyObject *core_torch_post_of_work(PyObject *module, PyObject *address)
{
    const void *work = PyLong_AsVoidPtr(address);
    (void)module;
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(torch_post_of(TOKEN_WORK, work, false));
}

static PyObject *core_torch_wait_for(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[2];
    (void)module;
    if (!take_numbers(args, count, 2, v)) {
        return NULL;
    }
    const void *work = (const void *)(uintptr_t)v[1];
    if (torch_post_of(TOKEN_WORK, work, false) == (uint64_t)v[0]) {
        torch_post_of(TOKEN_WORK, work, true);
    }
    return PyLong_FromUnsignedLongLong(torch_enter_wait((uint64_t)v[0], false));
}

static PyObject *core_torch_wait_for_storage(PyObject *module, PyObject *address)
{
    const void *storage = PyLong_AsVoidPtr(address);
    (void)module;
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(enter_wait(storage, false));
}

/* A method that hands one number on and returns nothing. */
#define WITH_NUMBER(name, function)                                                                                    \
    static PyObject *name(PyObject *module, PyObject *object)                                                          \
    {                                                                                                                  \
        uint64_t number = PyLong_AsUnsignedLongLongMask(object);                                                       \
        (void)module;                                                                                                  \
        if (PyErr_Occurred()) {                                                                                        \
            return NULL;                                                                                               \
        }                                                                                                              \
        function(number);                                                                                              \
        Py_RETURN_NONE;                                                                                                \
    }

static void close_scope(uint64_t scope)
{
    torch_close_scope(scope, false);
}

WITH_NUMBER(core_torch_completed, torch_post_completed)
WITH_NUMBER(core_torch_without_future, torch_post_without_future)
WITH_NUMBER(core_torch_begin_scope, torch_begin_scope)
WITH_NUMBER(core_torch_close_scope, close_scope)
WITH_NUMBER(core_torch_drop_scope, torch_drop_scope)
WITH_NUMBER(core_torch_leave_cxx, torch_leave_cxx)

static PyObject *core_torch_open_scope(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t v[2];
    (void)module;
    if (!take_numbers(args, count, 2, v)) {
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(torch_open_scope(v[0], v[1]));
}

static PyObject *core_torch_enter_cxx(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(torch_enter_cxx());
}

static PyObject *core_torch_reconstruct_waits(PyObject *module, PyObject *args)
{
    PyObject *list;
    unsigned long long begin, cpu_at_begin, end, cpu_at_end;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!KKKK:torch_reconstruct_waits", &PyList_Type, &list, &begin, &cpu_at_begin, &end,
                          &cpu_at_end)) {
        return NULL;
    }
    size_t count = (size_t)PyList_GET_SIZE(list);
    torch_post *posts = PyMem_Calloc(count + 1, sizeof *posts);
    torch_blocked *waits = PyMem_Calloc(count + 1, sizeof *waits);
    PyObject *result = posts && waits ? PyList_New(0) : PyErr_NoMemory();
    for (size_t i = 0; i < count && result; i++) {
        unsigned long long enter, exit, cpu_at_exit, done, cpu_at_done;
        int waited;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "KKKKKp", &enter, &exit, &cpu_at_exit, &done,
                              &cpu_at_done, &waited)) {
            Py_CLEAR(result);
            break;
        }
        posts[i] = (torch_post){.enter_ns = enter, .exit_ns = exit, .cpu_at_exit_ns = cpu_at_exit, .done_ns = done,
                                .cpu_at_done_ns = cpu_at_done, .waited = waited};
    }
    size_t found = result ? torch_reconstruct_waits(posts, count, begin, cpu_at_begin, end, cpu_at_end, waits) : 0;
    for (size_t i = 0; i < found && result; i++) {
        PyObject *row = Py_BuildValue("nKKK", (Py_ssize_t)waits[i].post, waits[i].enter_ns, waits[i].exit_ns,
                                      waits[i].cpu_enter_ns);
        if (row == NULL || PyList_Append(result, row) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(row);
    }
    PyMem_Free(posts);
    PyMem_Free(waits);
    return result;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

PyMethodDef torch_methods[] = {
    {"number", FAST(torch_number), METH_FASTCALL,
     "number(group_key, operation, peer, tag): how many such calls there were before, and one more from now on."},
    {"know_group", torch_know_group, METH_VARARGS,
     "know_group(address, group_key, group, ranks): a process group that calls name by its address."},
    {"forget_group", torch_forget_group, METH_O, "forget_group(address): it is gone. 0: all of them."},
    {"torch_api", core_torch_api, METH_VARARGS,
     "torch_api(globals, codes, autograd): address of what torch/kernels.cpp needs. Calls from frames with these globals\n"
     "wait if their arguments say so; messages do if one of these codes is near. C++ is called from frames with one of\n"
     "the globals in autograd."},
    {"torch_enter", FAST(core_torch_enter), METH_FASTCALL,
     "torch_enter(group, op, bits, peer, tag, nbytes, graph_task): enter a call (1: a message, 2: a receive from\n"
     "anybody, 4: with a Work, 8: which the caller will wait for at once, 16: of C++). Its event; 0: unknown group."},
    {"torch_leave", FAST(core_torch_leave), METH_FASTCALL,
     "torch_leave(event, waits): the operator has returned; the calling thread's next wait is part of the call or not."},
    {"torch_posted", FAST(core_torch_posted), METH_FASTCALL,
     "torch_posted(event, work): this Work stands for the post; whether its future is worth asking for."},
    {"torch_posted_result", FAST(core_torch_posted_result), METH_FASTCALL,
     "torch_posted_result(event, storage): who waits for this storage waits for the post."},
    {"torch_without_future", core_torch_without_future, METH_O,
     "torch_without_future(event): works of such posts have none."},
    {"torch_completed", core_torch_completed, METH_O, "torch_completed(event): a post is complete."},
    {"torch_post_of_work", core_torch_post_of_work, METH_O,
     "torch_post_of_work(work): event of the post that the Work at this address stands for, or 0."},
    {"torch_wait_for", FAST(core_torch_wait_for), METH_FASTCALL,
     "torch_wait_for(event, work): enter a wait for a post, returns its event."},
    {"torch_wait_for_storage", core_torch_wait_for_storage, METH_O,
     "torch_wait_for_storage(storage): enter a wait for the post that this storage stands for; its event, or 0."},
    {"torch_open_scope", FAST(core_torch_open_scope), METH_FASTCALL,
     "torch_open_scope(graph_task, in_callback): the scope of posts of this backward pass, 0 if there is one."},
    {"torch_begin_scope", core_torch_begin_scope, METH_O, "torch_begin_scope(scope): waits can begin."},
    {"torch_close_scope", core_torch_close_scope, METH_O, "torch_close_scope(scope): waits are over, write them."},
    {"torch_drop_scope", core_torch_drop_scope, METH_O, "torch_drop_scope(scope): nothing can be said of its waits."},
    {"torch_enter_cxx", core_torch_enter_cxx, METH_NOARGS,
     "torch_enter_cxx(): C++ is called that posts and waits. Returns what torch_leave_cxx takes."},
    {"torch_leave_cxx", core_torch_leave_cxx, METH_O, "torch_leave_cxx(outer): it has returned."},
    {"torch_reconstruct_waits", core_torch_reconstruct_waits, METH_VARARGS,
     "torch_reconstruct_waits(posts, begin, cpu_at_begin, end, cpu_at_end): when the thread that made these posts (enter,\n"
     "exit, cpu_at_exit, done, cpu_at_done, waited; ns) was blocked: (place, enter, exit, cpu_enter) of each wait."},
    {NULL, NULL, 0, NULL},
};
