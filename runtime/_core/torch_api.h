/* What the kernels in torch_kernels.cpp ask of the recorder. They are compiled apart, against the torch at hand. */
#ifndef SCALANA_TORCH_API_H
#define SCALANA_TORCH_API_H

#include <stdbool.h>
#include <stdint.h>

#define SCALANA_TORCH_API_VERSION 1u

/* One operator of torch's c10d namespace: its place in the table of operations, and of its arguments (-1 none). */
typedef struct {
    const char *name;
    uint32_t operation;
    int32_t group, payload, peer, tag, async;
    bool message;
} scalana_torch_operator;

/* A call as its arguments tell it. `peer` is a rank of the group. */
typedef struct {
    uint32_t operation;
    bool message;
    const void *group;
    int64_t peer, tag, nbytes;
} scalana_torch_call;

typedef struct {
    uint32_t version;
    /* Records that the calling thread enters a call that it will wait for. 0 if that is not known to be so, or not to be
     * recorded here: then the kernel in Python looks after it. Needs no lock of the interpreter. */
    uint64_t (*enter)(const scalana_torch_call *call);
    /* The operator has returned. `waits`: its Work will be waited for next, and ends the call. */
    void (*leave)(uint64_t event, bool waits);
} scalana_torch_api;

#endif
