/* The life of a recording: start, flush, stop, and what fork does to it. */
#include "recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clocks.h"
#include "record/writer.h"
#include "recorder/lock.h"
#include "recorder/sockets.h"
#include "recorder/spans.h"
#include "recorder/state.h"

#define FLUSH_BYTES (256u << 10)
#define TOTALS_EVERY_NS UINT64_C(5000000000)
#define MANY_TOTALS 2000u /* are written less often */
#define SMALLEST_BUDGET (64u << 10)

/* Lock order: io_lock, then the lock of the state, which is never held over a write to disk. */
static pthread_mutex_t io_lock = PTHREAD_MUTEX_INITIALIZER;
static block_buffer spare;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void (*fork_hook)(void);
static void (*flush_hook)(record_writer *writer);

/* ---- fork ---- */

static void before_fork(void)
{
    recorder_lock();
}

static void after_fork_parent(void)
{
    recorder_unlock();
}

/* A program may close descriptors that are not its own, and open another file by the same number. */
static bool is_our_file(int fd)
{
    struct stat info;
    return fd >= 0 && fstat(fd, &info) == 0 && info.st_dev == rec.device && info.st_ino == rec.inode;
}

static void forget(void)
{
    code_table_free(&rec.codes);
    path_table_free(&rec.paths);
    total_table_free(&rec.totals);
    free(rec.threads);
    free(rec.groups);
    free(rec.open);
    free(rec.posts);
    recorder_spans_forget();
    free(rec.path);
    if (!is_our_file(rec.writer.fd)) {
        rec.writer.fd = -1; /* the program's by now, not ours to close */
    }
    writer_close(&rec.writer);
    memset(&rec, 0, sizeof rec);
    rec.writer.fd = -1;
    rec.writer.stopped = true;
}

/* The child has one thread and none of the parent's others, which may have held the io lock, whose block is lost to it. */
static void after_fork_child(void)
{
    pthread_mutex_init(&io_lock, NULL);
    memset(&spare, 0, sizeof spare);
    recorder_lock_after_fork();
    sockets_after_fork();
    forget();
    if (fork_hook) {
        fork_hook();
    }
}

static void install_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void recorder_on_flush(void (*hook)(record_writer *writer))
{
    recorder_lock();
    flush_hook = hook;
    recorder_unlock();
}

void recorder_on_fork(void (*hook)(void))
{
    fork_hook = hook;
}

bool recorder_is_full(void)
{
    recorder_lock();
    bool full = rec.writer.active.size >= FLUSH_BYTES;
    recorder_unlock();
    return full;
}

/* ---- start, stop, flush ---- */

static void meta_number_locked(const char *key, uint64_t number)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    record_meta(&rec.writer, key, strlen(key), text, size > 0 ? (size_t)size : 0);
}

int recorder_start(const char *path, uint64_t budget_bytes)
{
    pthread_once(&fork_once, install_fork_handlers);
    if (recorder_is_on()) {
        return EALREADY;
    }
    record_writer writer;
    int error = writer_open(&writer, path);
    if (error) {
        return error;
    }
    pthread_mutex_lock(&io_lock);
    recorder_lock();
    if (recorder_is_on()) {
        recorder_unlock();
        pthread_mutex_unlock(&io_lock);
        writer_close(&writer);
        unlink(path);
        return EALREADY;
    }
    forget();
    rec.open = calloc(OPEN_CALLS, sizeof *rec.open);
    rec.posts = calloc(POSTS, sizeof *rec.posts);
    rec.path = realpath(path, NULL);
    struct stat info;
    if (rec.open == NULL || rec.posts == NULL || rec.path == NULL || fstat(writer.fd, &info) != 0) {
        forget();
        error = ENOMEM;
        writer_close(&writer);
        unlink(path);
    } else {
        rec.writer = writer;
        rec.device = info.st_dev;
        rec.inode = info.st_ino;
        rec.budget = budget_bytes > SMALLEST_BUDGET ? budget_bytes : SMALLEST_BUDGET;
        rec.totals_ns = clock_wall_ns();
        meta_number_locked("start_ns", rec.totals_ns);
        meta_number_locked("unix_ns", clock_ns(CLOCK_REALTIME));
        recorder_spans_begin_locked();
        for (uint32_t i = 0; i < THREAD_BUCKETS; i++) {
            rec.buckets[i] = NO_THREAD;
        }
        recorder_turn(true);
    }
    recorder_unlock();
    if (error == 0) {
        sockets_begin();
    }
    pthread_mutex_unlock(&io_lock);
    return error;
}

static void write_sockets_locked(uint64_t now_ns)
{
    static const char key[] = "sockets";
    size_t size;
    char *text = sockets_text(now_ns, &size);
    if (text && size) {
        record_meta(&rec.writer, key, sizeof key - 1, text, size);
    }
    free(text);
}

static void write_totals_locked(uint64_t now_ns)
{
    total_table *t = &rec.totals;
    rec.totals_ns = now_ns;
    recorder_write_span_totals_locked();
    if (t->changes == 0) {
        return;
    }
    for (uint32_t i = 0; i < t->index.count; i++) {
        total_row *row = &t->rows[i];
        if (row->changed) {
            record_total(&rec.writer, &row->sum);
            row->changed = false;
        }
    }
    t->changes = 0;
}

static void write_open_locked(uint64_t now_ns)
{
    bool timed = false;
    for (uint32_t i = 0; i < rec.open_top; i++) {
        if (rec.open[i].used) {
            if (!timed) {
                record_time(&rec.writer, now_ns); /* says as of when they are open */
                timed = true;
            }
            record_open(&rec.writer, &rec.open[i].event);
        }
    }
}

/* The write of a block failed that was to begin at `offset`: say so there if there is room for a line, then keep
 * quiet. */
static void give_up(int fd, int error, uint64_t offset)
{
    char text[160];
    char reason[96];
    block_buffer last = {0};
    const char *why = strerror_r(error, reason, sizeof reason);
    int size = snprintf(text, sizeof text, "recording stopped: the record could not be written: %s", why);
    recorder_lock();
    bool sealed = false;
    if (rec.writer.fd == fd && !rec.writer.stopped) {
        rec.writer.active.size = 0;
        record_note(&rec.writer, text, size > 0 ? (size_t)size : 0);
        sealed = writer_seal(&rec.writer, &last);
        rec.writer.stopped = true;
    }
    recorder_unlock();
    if (sealed) {
        writer_write(fd, &last, offset);
        free(last.data);
    }
}

/* Opens the record again whose descriptor was closed by the program. -1 when it is gone, and recording ends. */
static int reopen_locked(void)
{
    int fd = open(rec.path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (!is_our_file(fd)) {
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
        rec.writer.stopped = true;
    }
    rec.writer.fd = fd;
    return fd;
}

/* io_lock is held. */
static void flush_with_io(bool all_totals, bool ending, int64_t status)
{
    sockets_look();
    recorder_lock();
    bool sealed = false;
    uint64_t offset = rec.writer.sealed;
    int fd = rec.writer.fd;
    if (recorder_is_on() && !rec.writer.stopped) {
        uint64_t now = clock_wall_ns();
        if (!is_our_file(fd)) {
            fd = reopen_locked();
        }
        if (rec.writer.lost) {
            char text[96];
            snprintf(text, sizeof text, "%llu records lost: the disk did not keep up",
                     (unsigned long long)rec.writer.lost);
            rec.writer.lost = 0;
            recorder_note_locked(text);
        }
        if (flush_hook) {
            flush_hook(&rec.writer);
        }
        if (all_totals || now - rec.totals_ns >= TOTALS_EVERY_NS * (rec.totals.changes < MANY_TOTALS ? 1 : 6)) {
            write_totals_locked(now);
        }
        if (ending || sockets_due(now)) {
            write_sockets_locked(now);
        }
        write_open_locked(now);
        if (ending) {
            record_end(&rec.writer, now, status);
        }
        sealed = writer_seal(&rec.writer, &spare);
    }
    recorder_unlock();
    if (sealed) {
        int error = writer_write(fd, &spare, offset);
        if (error) {
            give_up(fd, error, offset);
        }
    }
}

void recorder_flush(void)
{
    if (recorder_is_on()) {
        pthread_mutex_lock(&io_lock);
        flush_with_io(false, false, 0);
        pthread_mutex_unlock(&io_lock);
    }
}

void recorder_stop(int64_t status)
{
    if (!recorder_is_on()) {
        return;
    }
    pthread_mutex_lock(&io_lock);
    flush_with_io(true, true, status);
    recorder_lock();
    recorder_turn(false);
    forget();
    recorder_unlock();
    sockets_forget();
    free(spare.data);
    memset(&spare, 0, sizeof spare);
    pthread_mutex_unlock(&io_lock);
}
