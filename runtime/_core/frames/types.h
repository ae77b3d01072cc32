/* Stacks of frames, and what is kept of a thread from one look at its stack to the next. Knows nothing of Python. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FRAMES_MAX 512
#define FRAMES_OUTERMOST 128

typedef struct {
    uintptr_t code;
    uint64_t fingerprint; /* of the code object's fields */
    uint32_t lasti;       /* byte offset of the instruction */
} frame_reference;

typedef struct {
    size_t count;    /* innermost first */
    bool cut;        /* frames between the outermost FRAMES_OUTERMOST and the rest are left out */
    frame_reference frames[FRAMES_MAX];
} frame_stack;

/* Outermost frames that are remembered from call to call, with the paths that they had. */
#define PATH_CACHE 128

typedef struct {
    frame_reference frame;
    uint32_t path;
    bool own, generated;
} cached_step;

/* What is needed of a code object to read a frame of it. */
typedef struct {
    uint64_t fingerprint;
    int64_t length; /* bytes of its instructions */
    int64_t first;  /* offset at which the function proper begins */
} code_shape;

/* What the latest stacks of a thread tell of its next one, so that this can be read in one short go. */
#define KNOWN_CODES 128

typedef struct {
    uintptr_t low, high; /* its frames, where they lie close together; 0 not known */
    struct known_code {
        uintptr_t code, globals;
        code_shape shape;
        unsigned epoch; /* in which it was read */
        bool trusted;   /* it is of a file: no other code object with these globals takes its place soon */
    } codes[KNOWN_CODES]; /* each at the place that its address says */
    unsigned epoch;       /* earlier ones are to be read again */
} stack_hints;

typedef struct {
    uint64_t generation; /* recorder_generation() that the paths belong to */
    size_t count;
    unsigned trusted; /* stacks read since all code objects were checked */
    stack_hints hints;
    cached_step steps[PATH_CACHE]; /* outermost first */
} path_cache;

typedef struct {
    uintptr_t state; /* PyThreadState */
    uintptr_t guess; /* where the record that holds the current frame was last */
    uint64_t made;   /* how many thread states there had been when it was looked at last */
    pid_t tid;
} python_thread;

typedef struct {
    uintptr_t code, globals;
} frame_caller;
