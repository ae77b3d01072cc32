/* The recorder as a table of functions, for the library that records calls of MPI.
 *
 * That library is preloaded and has a recorder of its own, for programs that know no Python. In a process that runs
 * Python there is one record all the same: this extension looks for the library and hands its own recorder over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/intern.h"
#include "record/block.h"
#include "recorder/call_arguments.h"

#define RECORDER_API_VERSION 3u
/* void (const recorder_api *): in the preloaded library. */
#define RECORDER_API_TAKER "scalana_native_attach"

typedef struct {
    uint32_t version;
    bool (*is_on)(void);
    const _Atomic uint64_t *generation; /* see recorder_generation; read without a call */
    void (*meta)(const char *key, size_t key_size, const char *value, size_t value_size);
    void (*note)(const char *text, size_t size);
    uint32_t (*group)(const char *name, size_t size, uint32_t my_rank, uint32_t members, const uint32_t *ranks);
    uint32_t (*thread)(pid_t tid, uint32_t flags);
    uint64_t (*event_at)(const call_arguments *call, uint32_t thread, uint32_t path, uint64_t enter_ns,
                         uint64_t exit_ns, uint64_t cpu_enter_ns, uint64_t cpu_ns);
    void (*completions_at)(const call_arguments *call, const uint64_t *completes, size_t count, uint32_t thread,
                           uint32_t path, uint64_t enter_ns, uint64_t exit_ns, uint64_t cpu_enter_ns,
                           uint64_t cpu_ns);
    void (*count)(const total_amount *amount);
    void (*count_locked)(const total_amount *amount); /* from within the hook of a flush */
    void (*on_flush)(void (*hook)(record_writer *writer));
    void (*flush)(void);
    /* Call path of the calling thread's Python frames, which need not hold the interpreter's lock. NULL: native. */
    uint32_t (*path_of_self)(void);
} recorder_api;
