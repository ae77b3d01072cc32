#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_LASTING 4

static atomic_int memory_file = -1;
/* Asking the kernel each time would cost as much as a small read. */
static atomic_int own_pid;

/* Ranges that stay mapped, and whoever reads there. */
static pthread_mutex_t lasting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lasting_range {
    uintptr_t low, high, floor;
} lasting[MOST_LASTING];
static atomic_size_t lasting_count; /* without any, nobody takes the lock: signal handlers read too */

static ssize_t read_vectors(const struct iovec *local, const struct iovec *remote, size_t count)
{
    return process_vm_readv(atomic_load_explicit(&own_pid, memory_order_relaxed), local, count, remote, count, 0);
}

static bool read_remote(void *to, uintptr_t from, size_t size)
{
    const struct iovec local = {to, size}, remote = {(void *)from, size};
    return read_vectors(&local, &remote, 1) == (ssize_t)size;
}

static bool read_file(void *to, uintptr_t from, size_t size)
{
    int fd = atomic_load(&memory_file);
    return fd >= 0 && pread(fd, to, size, (off_t)from) == (ssize_t)size;
}

/* ---- what stays mapped ---- */

void memory_add_lasting(uintptr_t low, uintptr_t high, uintptr_t floor)
{
    pthread_mutex_lock(&lasting_lock);
    if (lasting_count < MOST_LASTING) {
        lasting[lasting_count++] = (struct lasting_range){low, high, floor};
    }
    pthread_mutex_unlock(&lasting_lock);
}

void memory_forget_lasting(void)
{
    pthread_mutex_lock(&lasting_lock);
    lasting_count = 0;
    pthread_mutex_unlock(&lasting_lock);
}

static const struct lasting_range *lasting_around_locked(uintptr_t from, size_t size)
{
    for (size_t i = 0; i < lasting_count; i++) {
        if (memory_holds(lasting[i].low, lasting[i].high, from, size)) {
            return &lasting[i];
        }
    }
    return NULL;
}

uintptr_t memory_lasting_from(uintptr_t address)
{
    pthread_mutex_lock(&lasting_lock);
    const struct lasting_range *around = lasting_around_locked(address, 1);
    uintptr_t low = around ? around->low : 0;
    pthread_mutex_unlock(&lasting_lock);
    return low;
}

/* Copies word by word: its owner may be writing there. Sanitizers know nothing of whose memory this is. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static void copy_live(const memory_range *range)
{
    const volatile uint64_t *from = (const volatile uint64_t *)range->from;
    char *to = range->to;
    size_t words = range->size / sizeof *from;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = from[i];
        __builtin_memcpy(to + i * sizeof word, &word, sizeof word);
    }
    const volatile char *rest = (const volatile char *)(from + words);
    for (size_t i = 0; i < range->size % sizeof *from; i++) {
        to[words * sizeof *from + i] = rest[i];
    }
}

/* Reads the first of the ranges, as long as they last; returns how many. */
static size_t read_lasting(const memory_range *ranges, size_t count)
{
    size_t done = 0;
    if (atomic_load_explicit(&lasting_count, memory_order_relaxed) == 0) {
        return 0;
    }
    pthread_mutex_lock(&lasting_lock);
    while (done < count && lasting_around_locked(ranges[done].from, ranges[done].size)) {
        copy_live(&ranges[done]);
        done++;
    }
    pthread_mutex_unlock(&lasting_lock);
    return done;
}

/* A stack has grown to where it could be read, and never shrinks. */
static void note_growth(const memory_range *range)
{
    if (atomic_load_explicit(&lasting_count, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&lasting_lock);
    for (size_t i = 0; i < lasting_count; i++) {
        if (range->from >= lasting[i].floor && range->from < lasting[i].low && lasting[i].floor) {
            lasting[i].low = range->from;
        }
    }
    pthread_mutex_unlock(&lasting_lock);
}

/* ---- reads ---- */

static bool open_memory_file(void)
{
    if (atomic_load(&memory_file) < 0) {
        int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        int none = -1;
        if (fd >= 0 && !atomic_compare_exchange_strong(&memory_file, &none, fd)) {
            close(fd);
        }
    }
    return atomic_load(&memory_file) >= 0;
}

void memory_after_fork(void)
{
    int fd = atomic_exchange(&memory_file, -1);
    atomic_store(&own_pid, (int)getpid());
    pthread_mutex_init(&lasting_lock, NULL);
    lasting_count = 0;
    if (fd >= 0) {
        close(fd);
    }
}

enum memory_access memory_guarded_access(void)
{
    volatile uint64_t probe = UINT64_C(0x5ca1a7a05ca1a7a0);
    uint64_t seen = 0;
    atomic_store(&own_pid, (int)getpid());
    if (read_remote(&seen, (uintptr_t)&probe, sizeof seen) && seen == probe) {
        return MEMORY_REMOTE;
    }
    if (open_memory_file() && read_file(&seen, (uintptr_t)&probe, sizeof seen) && seen == probe) {
        return MEMORY_FILE;
    }
    return MEMORY_NONE;
}

/* Whole ranges that the kernel could read. */
static size_t ask_kernel(enum memory_access access, const memory_range *ranges, size_t count)
{
    size_t done = 0;
    if (access == MEMORY_FILE) {
        while (done < count && read_file(ranges[done].to, ranges[done].from, ranges[done].size)) {
            done++;
        }
        return done;
    }
    struct iovec local[MEMORY_MAX_RANGES], remote[MEMORY_MAX_RANGES];
    for (size_t i = 0; i < count; i++) {
        local[i] = (struct iovec){ranges[i].to, ranges[i].size};
        remote[i] = (struct iovec){(void *)ranges[i].from, ranges[i].size};
    }
    ssize_t got = read_vectors(local, remote, count);
    while (done < count && got >= (ssize_t)ranges[done].size) {
        got -= (ssize_t)ranges[done].size;
        done++;
    }
    return done;
}

size_t memory_read_ranges(enum memory_access access, const memory_range *ranges, size_t count)
{
    if (access == MEMORY_NONE) {
        return 0;
    }
    if (access == MEMORY_DIRECT) {
        for (size_t i = 0; i < count; i++) {
            memcpy(ranges[i].to, (const void *)ranges[i].from, ranges[i].size);
        }
        return count;
    }
    count = count < MEMORY_MAX_RANGES ? count : MEMORY_MAX_RANGES;
    size_t known = read_lasting(ranges, count);
    size_t asked = known < count ? ask_kernel(access, ranges + known, count - known) : 0;
    for (size_t i = known; i < known + asked; i++) {
        note_growth(&ranges[i]);
    }
    return known + asked;
}

bool memory_read(enum memory_access access, void *to, uintptr_t from, size_t size)
{
    const memory_range range = {from, to, size};
    return memory_read_ranges(access, &range, 1) == 1;
}
