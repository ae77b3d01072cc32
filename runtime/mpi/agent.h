/* What the preloaded library offers to the wrappers of one MPI, which are compiled against its header and loaded by it. */
#ifndef SCALANA_AGENT_H
#define SCALANA_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder.h"
#include "threads.h"

#define AGENT_VERSION 1u

/* A recorder: this library's own, or that of the Python extension in a process that runs Python. */
typedef struct {
    uint32_t version;
    bool (*is_on)(void);
    uint64_t (*generation)(void);
    void (*meta)(const char *key, size_t key_size, const char *value, size_t value_size);
    void (*note)(const char *text, size_t size);
    uint32_t (*group)(const char *name, size_t size, uint32_t my_rank, uint32_t members, const uint32_t *ranks);
    uint32_t (*thread)(pid_t tid, uint32_t flags);
    uint64_t (*event_at)(const call_arguments *call, uint32_t thread, uint32_t path, uint64_t enter_ns,
                         uint64_t exit_ns, uint64_t cpu_enter_ns, uint64_t cpu_ns);
    void (*completions_at)(const call_arguments *call, const uint64_t *completes, size_t count, uint32_t thread,
                           uint32_t path, uint64_t enter_ns, uint64_t exit_ns, uint64_t cpu_enter_ns,
                           uint64_t cpu_ns);
    void (*count)(uint32_t path, uint32_t operation, uint32_t group, uint64_t nbytes, uint64_t wall_ns,
                  uint64_t cpu_ns);
    void (*on_flush)(void (*hook)(record_writer *writer));
    void (*flush)(void);
    /* Call path of the calling thread's Python frames, which need not hold the interpreter's lock. NULL: native. */
    uint32_t (*path_of_self)(void);
} recorder_api;

typedef struct {
    uint32_t version;
    const recorder_api *recorder;
    native_thread *(*thread_self)(void);
    void (*thread_clocks)(native_thread *thread, uint64_t *wall_ns, uint64_t *cpu_ns);
    uint32_t (*path_of_call)(native_thread *thread, uintptr_t pc, uintptr_t sp, uintptr_t fp);
} agent_api;

/* A wrapper of the library for one MPI: by this name, that function. */
typedef struct {
    const char *name;
    void *function;
} agent_wrapper;

/* Names of the entry points between the libraries. */
#define AGENT_ATTACH "scalana_native_attach"       /* void (const recorder_api *): here, called by the extension */
#define AGENT_WRAPPERS "scalana_mpi_wrappers"      /* const agent_wrapper *(const agent_api *): there, ends with a NULL */

#endif
