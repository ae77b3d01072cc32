/* Reading the Python frames of a thread without the interpreter's help.
 *
 * What differs between CPython versions is a table of offsets, one per version (frames_310.h ... frames_314.h), taken
 * from that version's own headers. The walk itself is written once, over reads that cannot fault, and believes nothing:
 * types are compared with the known type objects, lengths and depths are bounded. */
#ifndef SCALANA_FRAMES_H
#define SCALANA_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory.h"

/* Whether one of the frames_3*.h applies. Needs <patchlevel.h> and <pyconfig.h> (which Python.h includes) before. */
#ifndef SCALANA_FRAME_LAYOUT
#if PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED) &&                        \
    !defined(Py_STACKREF_DEBUG) && !defined(PYPY_VERSION)
#define SCALANA_FRAME_LAYOUT 1
#else
#define SCALANA_FRAME_LAYOUT 0
#endif
#endif

#define FRAMES_NONE UINT32_MAX /* this version has no such field */

typedef struct {
    uint32_t minor;
    /* PyInterpreterState and PyThreadState */
    uint32_t interp_head;      /* first thread state */
    uint32_t interp_made;      /* how many there have been, the next one's id */
    uint32_t thread_next, thread_interp;
    uint32_t thread_native_id; /* kernel id; FRAMES_NONE: only thread_pthread */
    uint32_t thread_pthread;   /* pthread_t */
    uint32_t thread_frame;     /* current frame, or the record that holds it */
    uint32_t cframe_frame;     /* offset in that record, FRAMES_NONE when there is none */
    /* frame */
    uint32_t frame_code, frame_previous, frame_globals, frame_instruction, frame_owner;
    uint32_t frame_state;         /* a byte: 0 executing; frames that are objects, dead ones too, have one */
    uint32_t frame_size;          /* bytes that cover all of these */
    bool frame_is_object;         /* on the heap, with a type */
    bool instruction_is_index;    /* an int of code units, not a pointer */
    uint8_t owner_generator, owner_interpreter; /* from owner_interpreter on it is no frame of a Python function */
    uintptr_t code_tag_mask;      /* tag bits in frame_code */
    /* code object */
    uint32_t code_consts, code_names, code_first_line, code_file, code_name, code_qualname, code_table;
    uint32_t code_version, code_body, code_first_traceable;
    uint32_t code_size;           /* bytes that cover all of these */
    bool code_has_length;         /* ob_size counts code units */
} frame_layout;

#define FRAMES_MAX 512
#define FRAMES_OUTERMOST 128
/* Largest code_size of any version. */
#define FRAMES_CODE_SIZE 256

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

/* Checks that this interpreter's frames can be read, once; the interpreter's lock is held. If not, `why` says why. */
bool frames_prepare(const char **why);

/* Has what lasts as long as the calling thread does read without the kernel's help; the interpreter's lock is held. */
void frames_note_lasting(void);

/* Call path of the calling thread, which holds the interpreter's lock, without the inner frames of scalana's runtime; 0
 * when there is none. */
uint32_t frames_path_of_self(path_cache *cache);
/* The same for a thread that has let go of the interpreter's lock, to call something that takes long: its frames stand
 * still meanwhile. 0 where frames cannot be read natively. */
uint32_t frames_path_of_self_unlocked(path_cache *cache);

typedef struct {
    uintptr_t code, globals;
} frame_caller;

/* The innermost frames of the calling thread, which may have let go of the interpreter's lock. 0 where they cannot be
 * read. */
size_t frames_callers_of_self(frame_caller *callers, size_t capacity);

/* Directory whose code is skipped at the inner end of a path. */
void frames_set_own_directory(const char *directory);

typedef struct {
    uintptr_t state; /* PyThreadState */
    uintptr_t guess; /* where the record that holds the current frame was last */
    uint64_t made;   /* how many thread states there had been when it was looked at last */
    pid_t tid;
} python_thread;

/* Threads of the main interpreter, by guarded reads. Returns how many were found, at most `capacity`; `whole` says
 * whether the list was read to its end. */
size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole);

/* Has all code objects read again. */
void frames_doubt(stack_hints *hints);

/* Reads the frames of another thread. False when they changed underfoot. Not to be called by two threads at once. What
 * `cache` holds of this thread's previous stack saves reads: code objects of files that stand where they stood, at the
 * same instruction, are checked only once in a while. */
bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache);

/* Interns a stack, without its inner frames of scalana's runtime. False when a code object has gone. */
bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path);

#endif
