#include "threads/notes.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clocks.h"
#include "record/kinds.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"

/* A thread that has lost its core meanwhile has used less CPU time than that, by less than this. */
#define NEAR_NS UINT64_C(20000)

static __thread thread_notes *notes;
static pthread_key_t notes_key;
static pthread_once_t notes_once = PTHREAD_ONCE_INIT;

static void drop_notes(void *memory)
{
    notes = NULL;
    free(memory);
}

static void create_notes_key(void)
{
    pthread_key_create(&notes_key, drop_notes);
}

thread_notes *own_notes(void)
{
    if (notes == NULL) {
        thread_notes *fresh = calloc(1, sizeof *fresh);
        if (fresh == NULL) {
            return NULL;
        }
        pthread_once(&notes_once, create_notes_key);
        pthread_setspecific(notes_key, fresh);
        notes = fresh;
    }
    uint64_t generation = recorder_generation();
    if (notes->generation != generation) {
        notes->tid = (pid_t)syscall(SYS_gettid);
        notes->index = recorder_thread(notes->tid, THREAD_PYTHON | (notes->tid == getpid() ? THREAD_MAIN : 0u));
        notes->generation = generation;
        notes->waiting = 0;
        notes->any_source = NULL;
        notes->torch_call = 0;
        notes->backward = 0;
        notes->read_ns = 0;
    }
    return notes;
}

thread_notes *kept_notes(void)
{
    return notes && notes->generation == recorder_generation() ? notes : NULL;
}

uint64_t own_cpu_at(thread_notes *own, uint64_t now_ns)
{
    own->read_ns = now_ns;
    own->cpu_at_read_ns = clock_own_cpu_ns();
    return own->cpu_at_read_ns;
}

uint64_t own_cpu_within(thread_notes *own, uint64_t now_ns, uint64_t window_ns)
{
    if (now_ns - own->read_ns < window_ns) {
        return own->cpu_at_read_ns + (now_ns - own->read_ns);
    }
    return own_cpu_at(own, now_ns);
}

uint64_t own_cpu_near(thread_notes *own, uint64_t now_ns)
{
    return own_cpu_within(own, now_ns, NEAR_NS);
}
