#define PY_SSIZE_T_CLEAN
#include "torch_calls.h"

#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "clocks.h"
#include "frames.h"
#include "record_kinds.h"
#include "recorder.h"
#include "thread_notes.h"
#include "torch_api.h"

/* ---- numbers ---- */

/* Counters of the collectives of a group (operation 0) and of the messages of each channel. They outlive recordings. */
typedef struct {
    uint32_t group, operation;
    int64_t peer, tag;
    uint64_t next;
    bool used;
} counter;

static counter *counters;
static size_t counter_slots, counter_count;

static size_t slot_of(const counter *slots, size_t size, const counter *key)
{
    uint64_t hash = hash_word(HASH_SEED, (uint64_t)key->group << 32 | key->operation);
    hash = hash_finish(hash_word(hash_word(hash, (uint64_t)key->peer), (uint64_t)key->tag));
    size_t at = hash & (size - 1);
    while (slots[at].used && !(slots[at].group == key->group && slots[at].operation == key->operation &&
                               slots[at].peer == key->peer && slots[at].tag == key->tag)) {
        at = (at + 1) & (size - 1);
    }
    return at;
}

/* The recorder's lock is held, which survives a fork. */
static uint64_t number_locked(uint32_t group, uint32_t operation, int64_t peer, int64_t tag)
{
    const counter key = {.group = group, .operation = operation, .peer = peer, .tag = tag, .used = true};
    if (counter_count * 2 >= counter_slots) {
        size_t size = counter_slots ? counter_slots * 2 : 256;
        counter *larger = calloc(size, sizeof *larger);
        if (larger == NULL && counter_count + 1 >= counter_slots) {
            return 0;
        }
        if (larger) {
            for (size_t i = 0; i < counter_slots; i++) {
                if (counters[i].used) {
                    larger[slot_of(larger, size, &counters[i])] = counters[i];
                }
            }
            free(counters);
            counters = larger;
            counter_slots = size;
        }
    }
    counter *found = &counters[slot_of(counters, counter_slots, &key)];
    if (!found->used) {
        *found = key;
        counter_count++;
    }
    return found->next++;
}

PyObject *torch_number(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 4) {
        return PyErr_Format(PyExc_TypeError, "number() takes a group's key, operation, peer, tag");
    }
    unsigned long group = PyLong_AsUnsignedLongMask(args[0]), operation = PyLong_AsUnsignedLongMask(args[1]);
    unsigned long long peer = PyLong_AsUnsignedLongLongMask(args[2]), tag = PyLong_AsUnsignedLongLongMask(args[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    recorder_lock();
    uint64_t number = number_locked((uint32_t)group, (uint32_t)operation, (int64_t)peer, (int64_t)tag);
    recorder_unlock();
    return PyLong_FromUnsignedLongLong(number);
}

/* ---- calls that end with the wait that follows ---- */

static void end_waiting(thread_notes *own)
{
    uint64_t event = own->waiting;
    own->waiting = 0;
    recorder_end(event, -1, own->tid);
}

PyObject *torch_wait_follows(PyObject *module, PyObject *event)
{
    unsigned long long number = PyLong_AsUnsignedLongLongMask(event);
    (void)module;
    if (PyErr_Occurred()) {
        return NULL;
    }
    thread_notes *own = own_notes();
    if (own) {
        own->waiting = number;
    }
    Py_RETURN_NONE;
}

PyObject *torch_waits(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    const thread_notes *own = own_notes();
    return PyBool_FromLong(own && own->waiting);
}

PyObject *torch_waited(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    uint64_t event = 0;
    thread_notes *own = own_notes();
    if (own) {
        event = own->waiting;
        end_waiting(own);
    }
    return PyLong_FromUnsignedLongLong(event);
}

/* ---- process groups by address ---- */

#define MOST_GROUPS 64

typedef struct {
    const void *address;
    uint32_t key, id, members;
    int64_t *ranks;
} known_group;

/* Under the recorder's lock. */
static known_group groups[MOST_GROUPS];
static size_t group_count;

static void forget_group_locked(size_t at)
{
    free(groups[at].ranks);
    groups[at] = groups[--group_count];
}

PyObject *torch_know_group(PyObject *module, PyObject *args)
{
    unsigned long long address;
    unsigned int key, id;
    PyObject *ranks;
    (void)module;
    if (!PyArg_ParseTuple(args, "KIIO!:know_group", &address, &key, &id, &PyList_Type, &ranks)) {
        return NULL;
    }
    size_t members = (size_t)PyList_GET_SIZE(ranks);
    known_group group = {(const void *)(uintptr_t)address, key, id, (uint32_t)members, NULL};
    group.ranks = calloc(members ? members : 1, sizeof *group.ranks);
    if (group.ranks == NULL) {
        return PyErr_NoMemory();
    }
    for (size_t i = 0; i < members; i++) {
        group.ranks[i] = PyLong_AsLongLong(PyList_GET_ITEM(ranks, (Py_ssize_t)i));
    }
    if (PyErr_Occurred()) {
        free(group.ranks);
        return NULL;
    }
    recorder_lock();
    for (size_t i = group_count; i > 0; i--) {
        if (groups[i - 1].address == group.address) {
            forget_group_locked(i - 1);
        }
    }
    if (group_count < MOST_GROUPS) {
        groups[group_count++] = group;
        group.ranks = NULL;
    }
    recorder_unlock();
    free(group.ranks);
    Py_RETURN_NONE;
}

PyObject *torch_forget_group(PyObject *module, PyObject *address)
{
    const void *gone = PyLong_AsVoidPtr(address);
    (void)module;
    if (gone == NULL && PyErr_Occurred()) {
        return NULL;
    }
    recorder_lock();
    for (size_t i = group_count; i > 0; i--) {
        if (gone == NULL || groups[i - 1].address == gone) {
            forget_group_locked(i - 1);
        }
    }
    recorder_unlock();
    Py_RETURN_NONE;
}

/* ---- the kernels' side ---- */

#define NEAR_FRAMES 3 /* a message function of torch calls another one, which calls the operator */
#define MOST_CODES 4

static uintptr_t waiting_globals, message_codes[MOST_CODES];

/* Whether the function that makes this call is known to wait for it next. */
static bool is_of_waiting_function(bool message)
{
    frame_caller callers[NEAR_FRAMES];
    size_t count = frames_callers_of_self(callers, NEAR_FRAMES);
    if (!message) {
        return count > 0 && callers[0].globals == waiting_globals;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < MOST_CODES; k++) {
            if (message_codes[k] && callers[i].code == message_codes[k]) {
                return true;
            }
        }
    }
    return false;
}

static uint64_t enter_call(const scalana_torch_call *call)
{
    thread_notes *own = recorder_is_on() && is_of_waiting_function(call->message) ? own_notes() : NULL;
    if (own == NULL) {
        return 0;
    }
    call_arguments arguments = {
        .operation = call->operation, .peer = -1, .tag = call->tag, .nbytes = (uint64_t)call->nbytes, .flags = EVENT_BLOCKING};
    bool known = false;
    recorder_lock();
    for (size_t i = 0; i < group_count && !known; i++) {
        const known_group *group = &groups[i];
        if (group->address == call->group) {
            known = true;
            arguments.group = group->id;
            if (call->peer >= 0 && call->peer < (int64_t)group->members) {
                arguments.peer = group->ranks[call->peer];
            }
            arguments.seq = call->message ? number_locked(group->key, call->operation, arguments.peer, call->tag)
                                          : number_locked(group->key, 0, -1, 0);
        }
    }
    recorder_unlock();
    if (!known) {
        return 0;
    }
    if (own->waiting) { /* its wait did not come */
        end_waiting(own);
    }
    uint32_t path = frames_path_of_self_unlocked(&own->cache);
    uint64_t event = recorder_begin(&arguments, own->tid, own->index, path, clock_wall_ns(), clock_own_cpu_ns());
    return event ? event : UINT64_MAX; /* it has its number, and is not to get another one */
}

static void leave_call(uint64_t event, bool waits)
{
    thread_notes *own = own_notes();
    if (own == NULL || !waits) {
        recorder_end(event, -1, own ? own->tid : 0);
    } else {
        own->waiting = event;
    }
}

PyObject *torch_api(PyObject *module, PyObject *args)
{
    static const scalana_torch_api api = {SCALANA_TORCH_API_VERSION, enter_call, leave_call};
    PyObject *globals, *codes;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!:torch_api", &PyDict_Type, &globals, &PyTuple_Type, &codes)) {
        return NULL;
    }
    waiting_globals = (uintptr_t)globals;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(codes) && i < MOST_CODES; i++) {
        message_codes[i] = (uintptr_t)PyTuple_GET_ITEM(codes, i);
    }
    return PyLong_FromVoidPtr((void *)&api);
}
