#include "sampler/passes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clocks.h"
#include "frames/threads.h"
#include "sampler/look.h"
#include "sampler/state.h"
#include "threads/state.h"

/* The interpreter's list of threads is not walked more often than this. */
#define WALK_NS (9 * NS_PER_MS / 2)

void sampler_pass_over_known(void)
{
    sampling->steady = true;
    sampling->half_used = sampling->lacks_core = false;
    for (size_t i = sampling->count; i > 0; i--) {
        if (sampler_look_natively(sampling->rows[i - 1]) == HAS_ENDED) {
            sampler_forget(i - 1);
            sampling->any_gone = true;
        }
    }
}

/* Says whether there may be threads that are not listed. While no thread runs none can come, and the stack of one that
 * ran brings the count of thread states with it. Rows move when one is forgotten: backwards, so that none is missed. */
static bool look_at_listed(void)
{
    bool any_new = false;
    for (size_t i = sampling->count; i > 0; i--) {
        watched *w = sampling->rows[i - 1];
        if (w->listed && !w->ignored) {
            enum sight seen = sampler_look(w, NULL, 0);
            if (seen == HAS_ENDED) {
                sampler_forget(i - 1);
            }
            any_new = any_new || (seen == HAS_RUN && w->in_python.made != sampling->made);
        }
    }
    return any_new;
}

/* Finds threads that are new to Python, and those that are no longer in it. */
static void walk_thread_list(void)
{
    bool whole;
    size_t count = frames_threads(sampling->access, sampling->threads, MOST_PYTHON_THREADS, &whole);
    sampling->walk++;
    sampling->made = count > 0 && whole ? sampling->threads[0].made : 0;
    for (size_t i = 0; i < count; i++) {
        watched *w = sampler_watch(sampling->threads[i].tid, true);
        if (w == NULL) {
            continue;
        }
        w->walk = sampling->walk;
        if (!w->listed || w->in_python.state != sampling->threads[i].state) {
            w->in_python = sampling->threads[i];
            w->listed = true;
            w->unsettled = true;
        }
        if (w->unsettled && !w->ignored) {
            sampler_look(w, NULL, 0);
        }
    }
    for (size_t i = 0; whole && i < sampling->count; i++) {
        if (sampling->rows[i]->walk != sampling->walk) {
            sampling->rows[i]->listed = false;
        }
    }
}

void sampler_pass_over_python(uint64_t now, bool scan)
{
    bool any_new = look_at_listed();
    if ((any_new || scan) && now >= sampling->next_walk_ns) {
        walk_thread_list();
        sampling->next_walk_ns = now + WALK_NS;
    }
}

struct directory_entry { /* of getdents64, see its manual page */
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* Looks at a thread of the kernel's list, unless it is one whose Python frames are sampled. */
static void look_at_native(pid_t tid, uint64_t now)
{
    if (sampler_is_own(tid)) {
        return;
    }
    watched *w = sampler_find(tid);
    if (w == NULL) {
        w = sampler_watch(tid, false);
        if (w == NULL) {
            return;
        }
        w->unsettled = false; /* of no interest before it runs */
        w->look_ns = now - (sampling->first_pass ? 0 : NATIVE_SCAN_NS);
        if (native_source && !sampling->first_pass) {
            clock_thread_cpu_ns(tid, &w->cpu_ns);
        }
    }
    w->pass = sampling->pass;
    if (native_source) {
        native_source->take(tid, NULL, 0); /* from now on its samples are kept */
        return;
    }
    if (!w->ignored && !w->listed && sampler_look(w, NULL, 0) == HAS_ENDED) {
        w->pass = 0;
    }
}

void sampler_pass_over_native(uint64_t now)
{
    _Alignas(8) char buffer[4096];
    /* Threads that have native samples are looked at anyway; here new ones are found. */
    if (native_source && !sampling->any_gone && threads_listed() == sampling->listed) {
        return;
    }
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    sampling->pass++;
    sampling->any_gone = false;
    sampling->changed_ns = now;
    sampling->listed = 0;
    long size;
    while ((size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < size;) {
            const struct directory_entry *entry = (const void *)(buffer + at);
            pid_t tid = (pid_t)strtol(entry->name, NULL, 10);
            if (tid > 0) {
                sampling->listed++;
                look_at_native(tid, now);
            }
            at += entry->size;
        }
    }
    close(fd);
    for (size_t i = sampling->count; i > 0; i--) {
        if (sampling->rows[i - 1]->pass != sampling->pass) {
            sampler_forget(i - 1);
        }
    }
}

void sampler_emit_all_held(void)
{
    for (size_t i = 0; i < sampling->count; i++) {
        if (sampling->rows[i]->python || native_source) {
            sampler_emit_held(sampling->rows[i]);
        }
    }
}
