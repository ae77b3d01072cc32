/* What the kernels in kernels.cpp ask of the recorder. They are compiled apart, against the torch at hand. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SCALANA_TORCH_API_VERSION 2u

/* One operator of torch's c10d namespace: its place in the table of operations, and of its arguments (-1 none). */
typedef struct {
    const char *name;
    uint32_t operation;
    int32_t group, payload, result, peer, tag, async;
    bool message, any_source, has_work;
} scalana_torch_operator;

/* A call as its arguments tell it. `peer` is a rank of the group. */
typedef struct {
    uint32_t operation;
    bool message, any_source, has_work;
    bool asynchronous; /* the arguments say that nobody waits at once */
    const void *group;
    int64_t peer, tag, nbytes;
    int64_t graph_task; /* of the backward pass that the thread is in, -1 none */
} scalana_torch_call;

/* What the recorder makes of a call. `event` 0: it knows not enough, the kernel in Python is to look after the call. */
typedef struct {
    uint64_t event;
    bool post;        /* somebody may wait for it later */
    bool from_public; /* a public function of torch.distributed made it, which hands its Work out */
} scalana_torch_entry;

/* None of these needs the interpreter's lock. */
typedef struct {
    uint32_t version;
    scalana_torch_entry (*enter)(const scalana_torch_call *call);
    /* The operator has returned from a call that is no post. `waits`: its Work will be waited for next, and ends it. */
    void (*leave)(uint64_t event, bool waits);
    /* The operator has returned from a post; whether to tell of its completion. */
    bool (*posted)(uint64_t event, const void *work);
    void (*posted_result)(uint64_t event, const void *storage);
    void (*without_future)(uint64_t event);
    void (*completed)(uint64_t event);
    uint64_t (*enter_wait)(const void *storage);
    void (*leave_wait)(uint64_t event);
    /* A backward pass that posts: nonzero if nobody looks after it yet. `in_callback`: its graph is done already. */
    uint64_t (*open_scope)(int64_t graph_task, bool in_callback);
    void (*begin_scope)(uint64_t scope);
    void (*close_scope)(uint64_t scope);
    void (*drop_scope)(uint64_t scope);
} scalana_torch_api;
