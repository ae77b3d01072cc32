#define PY_SSIZE_T_CLEAN
#include "torch/groups.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "recorder/lock.h"

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
uint64_t torch_number_locked(uint32_t group, uint32_t operation, int64_t peer, int64_t tag)
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
    uint64_t number = torch_number_locked((uint32_t)group, (uint32_t)operation, (int64_t)peer, (int64_t)tag);
    recorder_unlock();
    return PyLong_FromUnsignedLongLong(number);
}

/* ---- process groups by address ---- */

typedef struct {
    const void *address;
    torch_group *group;
} known_address;

/* Under the recorder's lock. */
static known_address *known;
static size_t known_count, known_capacity;
static torch_group **made;
static size_t made_count, made_capacity;

torch_group *torch_group_at_locked(const void *process_group)
{
    static size_t latest; /* most programs stay with one group for a while */
    if (latest < known_count && known[latest].address == process_group) {
        return known[latest].group;
    }
    for (size_t i = 0; i < known_count; i++) {
        if (known[i].address == process_group) {
            latest = i;
            return known[i].group;
        }
    }
    return NULL;
}

static bool make_room(void **rows, size_t *capacity, size_t count, size_t row)
{
    if (count == *capacity) {
        size_t larger = *capacity ? *capacity * 2 : 16;
        void *moved = realloc(*rows, larger * row);
        if (moved == NULL) {
            return false;
        }
        *rows = moved;
        *capacity = larger;
    }
    return true;
}

static torch_group *group_by_key_locked(uint32_t key)
{
    for (size_t i = made_count; i > 0; i--) {
        if (made[i - 1]->key == key) {
            return made[i - 1];
        }
    }
    return NULL;
}

/* Takes over the ranks, unless it returns false. */
static bool know_locked(const void *address, uint32_t key, uint32_t id, size_t members, int64_t *ranks)
{
    torch_group *group = group_by_key_locked(key);
    if (!make_room((void **)&known, &known_capacity, known_count, sizeof *known) ||
        !make_room((void **)&made, &made_capacity, made_count, sizeof *made)) {
        return false;
    }
    if (group == NULL) {
        group = calloc(1, sizeof *group);
        if (group == NULL) {
            return false;
        }
        *group = (torch_group){.key = key, .members = members, .ranks = ranks};
        made[made_count++] = group;
    } else {
        free(ranks); /* a key stands for the same ranks for good */
    }
    group->id = id;
    known[known_count++] = (known_address){address, group};
    return true;
}

static void forget_locked(const void *address)
{
    for (size_t i = known_count; i > 0; i--) {
        if (address == NULL || known[i - 1].address == address) {
            known[i - 1] = known[--known_count];
        }
    }
}

PyObject *torch_know_group(PyObject *module, PyObject *args)
{
    unsigned long long place;
    unsigned int key, id;
    PyObject *list;
    (void)module;
    if (!PyArg_ParseTuple(args, "KIIO!:know_group", &place, &key, &id, &PyList_Type, &list)) {
        return NULL;
    }
    const void *address = (const void *)(uintptr_t)place;
    size_t members = (size_t)PyList_GET_SIZE(list);
    int64_t *ranks = calloc(members ? members : 1, sizeof *ranks);
    if (ranks == NULL) {
        return PyErr_NoMemory();
    }
    for (size_t i = 0; i < members; i++) {
        ranks[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, (Py_ssize_t)i));
    }
    bool kept = false;
    if (!PyErr_Occurred()) {
        recorder_lock();
        forget_locked(address ? address : (const void *)-1);
        kept = know_locked(address, key, id, members, ranks);
        recorder_unlock();
    }
    if (!kept) {
        free(ranks);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
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
    forget_locked(gone);
    recorder_unlock();
    Py_RETURN_NONE;
}
