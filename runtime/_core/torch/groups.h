/* Process groups of torch, and the numbers by which calls on different ranks find each other. */
#pragma once

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* One communicator of this process. Made once and never freed, though the process group may be gone. */
typedef struct torch_group {
    uint32_t key;            /* by which its counters are known */
    uint32_t id;             /* in the current record */
    uint64_t without_future; /* bit per operation whose works have none */
    size_t members;
    int64_t *ranks; /* world rank of each member */
} torch_group;

/* The recorder's lock is held for all of these: it survives a fork. */
torch_group *torch_group_at_locked(const void *process_group);
uint64_t torch_number_locked(uint32_t group_key, uint32_t operation, int64_t peer, int64_t tag);

/* World rank of a member, -1 where there is none. */
static inline int64_t torch_world_rank(const torch_group *group, int64_t member)
{
    return group && member >= 0 && (uint64_t)member < group->members ? group->ranks[member] : -1;
}

static inline uint64_t torch_operation_bit(uint32_t operation)
{
    return UINT64_C(1) << (operation & 63u);
}

PyObject *torch_number(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *torch_know_group(PyObject *module, PyObject *args);
PyObject *torch_forget_group(PyObject *module, PyObject *address);
