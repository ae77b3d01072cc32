#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "clocks.h"
#include "record_kinds.h"
#include "record_writer.h"

#define FLUSH_BYTES (256u << 10)
#define OPEN_CALLS 1024u
#define POSTS 16384u /* power of two */
#define THREAD_BUCKETS 1024u /* power of two */
#define NO_THREAD UINT32_MAX
#define TOTALS_EVERY_NS UINT64_C(30000000000)
#define SMALLEST_BUDGET (64u << 10)
#define LARGEST_LEVEL 24u

typedef struct {
    pid_t tid; /* 0 once the thread is gone */
    uint32_t flags;
    uint32_t next; /* in the bucket */
} thread_row;

typedef struct {
    uint64_t name_hash;
    uint32_t content; /* of ranks, low half of a hash */
    uint32_t my_rank, my_world_rank, members;
} group_row;

typedef struct {
    event_record event;
    pid_t tid;
    bool used;
} open_call;

typedef struct {
    uint64_t event;
    pid_t tid;
} posted;

typedef struct {
    record_writer writer;
    char *path;
    dev_t device;
    ino_t inode;
    uint64_t budget;
    uint64_t serial;
    uint64_t totals_ns;
    bool intervals_stopped, any_source_stopped, definitions_stopped, open_full_noted;
    code_table codes;
    path_table paths;
    total_table totals;
    thread_row *threads;
    uint32_t thread_count, thread_capacity;
    uint32_t buckets[THREAD_BUCKETS];
    group_row *groups;
    uint32_t group_count, group_capacity;
    open_call *open;
    uint32_t open_top; /* slots in use are below it */
    posted *posts;
} recording;

/* Lock order: io_lock, then state_lock. The state lock is never held over a write to disk. */
static pthread_mutex_t io_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static recording rec = {.writer = {.fd = -1, .stopped = true}};
static block_buffer spare;
static atomic_bool on;
static _Atomic uint64_t generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void (*fork_hook)(void);
static void (*flush_hook)(record_writer *writer);

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&state_lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&state_lock);
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
    pthread_mutex_init(&state_lock, NULL);
    memset(&spare, 0, sizeof spare);
    atomic_store(&on, false);
    atomic_fetch_add(&generation, 1);
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

/* ---- helpers ---- */

void recorder_lock(void)
{
    pthread_mutex_lock(&state_lock);
}

void recorder_unlock(void)
{
    pthread_mutex_unlock(&state_lock);
}

bool recorder_is_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

uint64_t recorder_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void note_locked(const char *text)
{
    record_note(&rec.writer, text, strlen(text));
}

/* Number of times that the remaining budget has halved. */
static uint32_t level_locked(void)
{
    uint64_t used = writer_bytes(&rec.writer);
    uint64_t left = used < rec.budget ? rec.budget - used : 0;
    uint32_t level = 0;
    while (level < LARGEST_LEVEL && left <= rec.budget >> (level + 1)) {
        level++;
    }
    return level;
}

uint32_t recorder_level(void)
{
    recorder_lock();
    uint32_t level = recorder_is_on() ? level_locked() : 0;
    recorder_unlock();
    return level;
}

bool recorder_is_full(void)
{
    recorder_lock();
    bool full = rec.writer.active.size >= FLUSH_BYTES;
    recorder_unlock();
    return full;
}

uint64_t recorder_key_collective(const char *name, size_t size, uint64_t seq)
{
    return hash_finish(hash_word(hash_bytes(HASH_SEED, name, size), seq));
}

uint64_t recorder_key_message(int64_t source, int64_t destination, int64_t tag, uint64_t seq)
{
    uint64_t hash = hash_word(HASH_SEED, (uint64_t)source);
    hash = hash_word(hash, (uint64_t)destination);
    hash = hash_word(hash, (uint64_t)tag);
    return hash_finish(hash_word(hash, seq));
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
        for (uint32_t i = 0; i < THREAD_BUCKETS; i++) {
            rec.buckets[i] = NO_THREAD;
        }
        atomic_fetch_add(&generation, 1);
        atomic_store(&on, true);
    }
    recorder_unlock();
    pthread_mutex_unlock(&io_lock);
    return error;
}

static void write_totals_locked(uint64_t now_ns)
{
    total_table *t = &rec.totals;
    rec.totals_ns = now_ns;
    if (t->changes == 0) {
        return;
    }
    for (uint32_t i = 0; i < t->index.count; i++) {
        total_row *row = &t->rows[i];
        if (row->changed) {
            record_total(&rec.writer, row->path, row->operation, row->group, row->calls, row->nbytes, row->wall_ns,
                         row->cpu_ns);
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
    if (flush_hook) {
        flush_hook(&rec.writer);
    }
}

/* A write failed: say so if there is room for a line, then keep quiet. */
static void give_up(int fd, int error)
{
    char text[160];
    char reason[96];
    block_buffer last = {0};
    const char *why = strerror_r(error, reason, sizeof reason);
    int size = snprintf(text, sizeof text, "recording stopped: the record could not be written: %s", why);
    recorder_lock();
    bool sealed = false;
    uint64_t offset = rec.writer.sealed;
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
            note_locked(text);
        }
        if (all_totals || now - rec.totals_ns >= TOTALS_EVERY_NS) {
            write_totals_locked(now);
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
            give_up(fd, error);
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
    atomic_store(&on, false);
    atomic_fetch_add(&generation, 1);
    forget();
    recorder_unlock();
    free(spare.data);
    memset(&spare, 0, sizeof spare);
    pthread_mutex_unlock(&io_lock);
}

/* ---- definitions ---- */

void recorder_meta(const char *key, size_t key_size, const char *value, size_t value_size)
{
    recorder_lock();
    record_meta(&rec.writer, key, key_size, value, value_size);
    recorder_unlock();
}

void recorder_note(const char *text, size_t size)
{
    recorder_lock();
    record_note(&rec.writer, text, size);
    recorder_unlock();
}

static bool grow(void **rows, uint32_t *capacity, uint32_t count, size_t row_size)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t larger = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*rows, larger * row_size);
    if (grown == NULL) {
        return false;
    }
    *rows = grown;
    *capacity = larger;
    return true;
}

uint32_t recorder_group(const char *name, size_t size, uint32_t my_rank, uint32_t members, const uint32_t *ranks)
{
    uint64_t name_hash = hash_bytes(HASH_SEED, name, size);
    uint32_t content = (uint32_t)hash_finish(hash_bytes(HASH_SEED, ranks, members * sizeof *ranks));
    uint32_t id = 0;
    recorder_lock();
    if (recorder_is_on()) {
        for (uint32_t i = 0; i < rec.group_count && id == 0; i++) {
            const group_row *g = &rec.groups[i];
            if (g->name_hash == name_hash && g->content == content && g->members == members &&
                g->my_rank == my_rank) {
                id = i + 1;
            }
        }
        void *rows = rec.groups;
        if (id == 0 && grow(&rows, &rec.group_capacity, rec.group_count, sizeof *rec.groups)) {
            rec.groups = rows;
            rec.groups[rec.group_count++] =
                (group_row){name_hash, content, my_rank, my_rank < members ? ranks[my_rank] : 0, members};
            id = rec.group_count;
            record_group(&rec.writer, id, name, size, my_rank, members, ranks);
        }
    }
    recorder_unlock();
    return id;
}

static size_t thread_name(pid_t tid, char *name, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, name, capacity);
    close(fd);
    size_t size = n > 0 ? (size_t)n : 0;
    while (size > 0 && (name[size - 1] == '\n' || name[size - 1] == 0)) {
        size--;
    }
    for (size_t i = 0; i < size; i++) { /* any bytes may stand there; a record's strings are UTF-8 */
        if ((unsigned char)name[i] >= 0x80 || (unsigned char)name[i] < 0x20) {
            name[i] = '?';
        }
    }
    return size;
}

static uint32_t find_thread_locked(pid_t tid)
{
    if (rec.threads == NULL) {
        return NO_THREAD;
    }
    uint32_t at = rec.buckets[(uint32_t)tid & (THREAD_BUCKETS - 1)];
    while (at != NO_THREAD && rec.threads[at].tid != tid) {
        at = rec.threads[at].next;
    }
    return at;
}

/* A thread that has had Python frames is no native one, whatever it was taken for before. */
static uint32_t shown_flags(uint32_t flags)
{
    return flags & THREAD_PYTHON ? flags & ~(uint32_t)THREAD_NATIVE : flags;
}

uint32_t recorder_thread(pid_t tid, uint32_t flags)
{
    char name[64];
    size_t size = 0;
    bool named = false;
    for (;;) {
        recorder_lock();
        uint32_t at = find_thread_locked(tid);
        bool known = at != NO_THREAD && (rec.threads[at].flags | flags) == rec.threads[at].flags;
        if (known || !recorder_is_on()) {
            recorder_unlock();
            return at == NO_THREAD ? 0 : at;
        }
        if (named) {
            bool fresh = false;
            void *rows = rec.threads;
            if (at == NO_THREAD && grow(&rows, &rec.thread_capacity, rec.thread_count, sizeof *rec.threads)) {
                uint32_t *bucket = &rec.buckets[(uint32_t)tid & (THREAD_BUCKETS - 1)];
                rec.threads = rows;
                at = rec.thread_count++;
                rec.threads[at] = (thread_row){tid, 0, *bucket};
                *bucket = at;
                fresh = true;
            }
            if (at != NO_THREAD) {
                uint32_t before = shown_flags(rec.threads[at].flags);
                rec.threads[at].flags |= flags;
                uint32_t after = shown_flags(rec.threads[at].flags);
                if (fresh || after != before) {
                    record_thread(&rec.writer, at, (uint64_t)tid, name, size, after);
                }
            }
            recorder_unlock();
            return at == NO_THREAD ? 0 : at;
        }
        recorder_unlock();
        size = thread_name(tid, name, sizeof name); /* a look into /proc, so not under the lock */
        named = true;
    }
}

void recorder_thread_gone(pid_t tid)
{
    recorder_lock();
    uint32_t at = find_thread_locked(tid);
    if (at != NO_THREAD) {
        uint32_t *link = &rec.buckets[(uint32_t)tid & (THREAD_BUCKETS - 1)];
        while (*link != at) {
            link = &rec.threads[*link].next;
        }
        *link = rec.threads[at].next;
        rec.threads[at].tid = 0;
    }
    recorder_unlock();
}

code_address *recorder_code_at_locked(uint64_t address)
{
    return code_at(&rec.codes, address);
}

/* Programs that generate code without end would outgrow any budget by definitions alone. */
static bool may_define_locked(void)
{
    if (rec.definitions_stopped) {
        return false;
    }
    if (rec.budget && writer_bytes(&rec.writer) >= rec.budget - rec.budget / 16) {
        rec.definitions_stopped = true;
        note_locked("size budget: new call paths are no longer recorded");
    }
    return !rec.definitions_stopped && recorder_is_on();
}

uint32_t recorder_code_locked(const code_content_view *code)
{
    uint64_t hash[2];
    for (unsigned i = 0; i < 2; i++) {
        uint64_t h = hash_word(HASH_SEED + i * UINT64_C(0x9E3779B97F4A7C15), code->first_line);
        h = hash_word(hash_bytes(h, code->file, code->file_size), code->file_size);
        h = hash_word(hash_bytes(h, code->name, code->name_size), code->name_size);
        h = hash_word(hash_bytes(h, code->table, code->table_size), code->minor);
        hash[i] = hash_finish(h);
    }
    bool fresh;
    uint32_t id = code_by_content(&rec.codes, hash, may_define_locked(), &fresh);
    if (fresh) {
        record_code(&rec.writer, id, code->file, code->file_size, code->name, code->name_size, code->first_line,
                    code->minor, code->table, code->table_size);
    }
    return id;
}

uint32_t recorder_path_locked(uint32_t parent, uint32_t code, uint32_t lasti)
{
    bool fresh;
    uint32_t id = path_intern(&rec.paths, parent, code, lasti, may_define_locked(), &fresh);
    if (fresh) {
        record_path(&rec.writer, id, parent, code, lasti);
    }
    return id;
}

/* ---- communication ---- */

static bool is_kept_locked(const call_arguments *call, uint32_t level)
{
    if (call->completes) {
        return (call->completes & 1) == 0; /* as its post */
    }
    if (level == 0) {
        return true;
    }
    const group_row *group = call->group && call->group <= rec.group_count ? &rec.groups[call->group - 1] : NULL;
    uint64_t key;
    bool sends = call->operation == OPERATION_SEND || call->operation == OPERATION_BLOCKING_SEND;
    if (sends || call->operation == OPERATION_RECV) {
        if ((call->flags & EVENT_ANY_SOURCE) || call->peer < 0) {
            /* The channel is not known before the message is here. Such receives are kept as long as possible. */
            if (level >= 4 && !rec.any_source_stopped) {
                rec.any_source_stopped = true;
                note_locked("size budget: receives from any source are no longer recorded");
            }
            return !rec.any_source_stopped;
        }
        int64_t me = group ? (int64_t)group->my_world_rank : -1;
        key = recorder_key_message(sends ? me : call->peer, sends ? call->peer : me, call->tag, call->seq);
    } else {
        key = hash_finish(hash_word(group ? group->name_hash : HASH_SEED, call->seq));
    }
    return (key & ((UINT64_C(1) << level) - 1)) == 0;
}

uint64_t recorder_begin(const call_arguments *call, pid_t tid, uint32_t thread, uint32_t path, uint64_t enter_ns,
                        uint64_t cpu_ns)
{
    uint64_t id = 0;
    recorder_lock();
    if (recorder_is_on()) {
        uint32_t slot = 0;
        while (slot < rec.open_top && rec.open[slot].used) {
            slot++;
        }
        if (slot < OPEN_CALLS) {
            uint32_t level = level_locked();
            bool kept = is_kept_locked(call, level);
            id = ++rec.serial * 2 + (kept ? 0 : 1);
            rec.open[slot].used = true;
            rec.open[slot].tid = tid;
            rec.open[slot].event = (event_record){
                .id = id,
                .thread = thread,
                .operation = call->operation,
                .group = call->group,
                .path = path,
                .seq = call->seq,
                .peer = call->peer,
                .tag = call->tag,
                .nbytes = call->nbytes,
                .completes = call->completes,
                .enter_ns = enter_ns,
                .cpu_enter_ns = cpu_ns,
                .flags = (call->flags & 0xffu) | level << EVENT_LEVEL_SHIFT,
            };
            if (slot >= rec.open_top) {
                rec.open_top = slot + 1;
            }
        } else if (!rec.open_full_noted) {
            rec.open_full_noted = true;
            note_locked("more than 1024 calls open at once: some were not recorded");
        }
    }
    recorder_unlock();
    return id;
}

void recorder_end(uint64_t event, int64_t source, pid_t tid)
{
    if (event == 0 || !recorder_is_on()) {
        return;
    }
    uint64_t now = clock_wall_ns();
    uint64_t own_cpu = clock_own_cpu_ns();
    recorder_lock();
    uint32_t slot = rec.open_top;
    while (slot > 0 && !(rec.open[slot - 1].used && rec.open[slot - 1].event.id == event)) {
        slot--;
    }
    if (slot > 0 && recorder_is_on()) {
        open_call *call = &rec.open[slot - 1];
        event_record *e = &call->event;
        uint64_t cpu = own_cpu;
        if (call->tid != tid && !clock_thread_cpu_ns(call->tid, &cpu)) {
            cpu = e->cpu_enter_ns;
        }
        e->duration_ns = now > e->enter_ns ? now - e->enter_ns : 0;
        e->cpu_ns = cpu > e->cpu_enter_ns ? cpu - e->cpu_enter_ns : 0;
        if (source >= 0) {
            e->peer = source;
        }
        if ((event & 1) == 0) {
            record_event(&rec.writer, e);
        }
        if (e->flags & EVENT_POST) {
            rec.posts[(event >> 1) & (POSTS - 1)] = (posted){event, call->tid};
        }
        total_add(&rec.totals, e->path, e->operation, e->group, e->nbytes, e->duration_ns, e->cpu_ns);
        call->used = false;
        while (rec.open_top > 0 && !rec.open[rec.open_top - 1].used) {
            rec.open_top--;
        }
    }
    recorder_unlock();
}

uint64_t recorder_event_at(const call_arguments *call, uint32_t thread, uint32_t path, uint64_t enter_ns,
                           uint64_t exit_ns, uint64_t cpu_enter_ns, uint64_t cpu_ns)
{
    uint64_t id = 0;
    recorder_lock();
    if (recorder_is_on()) {
        uint32_t level = level_locked();
        bool kept = is_kept_locked(call, level);
        id = ++rec.serial * 2 + (kept ? 0 : 1);
        const event_record e = {
            .id = id,
            .thread = thread,
            .operation = call->operation,
            .group = call->group,
            .path = path,
            .seq = call->seq,
            .peer = call->peer,
            .tag = call->tag,
            .nbytes = call->nbytes,
            .completes = call->completes,
            .enter_ns = enter_ns,
            .duration_ns = exit_ns > enter_ns ? exit_ns - enter_ns : 0,
            .cpu_enter_ns = cpu_enter_ns,
            .cpu_ns = cpu_ns,
            .flags = (call->flags & 0x7fu) | level << EVENT_LEVEL_SHIFT,
        };
        if (kept) {
            record_event(&rec.writer, &e);
        }
        if ((call->flags & EVENT_UNCOUNTED) == 0) {
            total_add(&rec.totals, e.path, e.operation, e.group, e.nbytes, e.duration_ns, e.cpu_ns);
        }
    }
    recorder_unlock();
    return id;
}

void recorder_completions_at(const call_arguments *call, const uint64_t *completes, size_t count, uint32_t thread,
                             uint32_t path, uint64_t enter_ns, uint64_t exit_ns, uint64_t cpu_enter_ns,
                             uint64_t cpu_ns)
{
    recorder_lock();
    if (recorder_is_on()) {
        uint32_t level = level_locked();
        event_record e = {
            .thread = thread,
            .operation = call->operation,
            .group = call->group,
            .path = path,
            .seq = call->seq,
            .peer = call->peer,
            .tag = call->tag,
            .nbytes = call->nbytes,
            .enter_ns = enter_ns,
            .duration_ns = exit_ns > enter_ns ? exit_ns - enter_ns : 0,
            .cpu_enter_ns = cpu_enter_ns,
            .cpu_ns = cpu_ns,
            .flags = (call->flags & 0xffu) | level << EVENT_LEVEL_SHIFT,
        };
        for (size_t i = 0; i < count; i++) {
            if ((completes[i] & 1) == 0) {
                e.id = ++rec.serial * 2;
                e.completes = completes[i];
                record_event(&rec.writer, &e);
            }
        }
        total_add(&rec.totals, e.path, e.operation, e.group, e.nbytes, e.duration_ns, e.cpu_ns);
    }
    recorder_unlock();
}

void recorder_count(uint32_t path, uint32_t operation, uint32_t group, uint64_t nbytes, uint64_t wall_ns,
                    uint64_t cpu_ns)
{
    recorder_lock();
    if (recorder_is_on()) {
        total_add(&rec.totals, path, operation, group, nbytes, wall_ns, cpu_ns);
    }
    recorder_unlock();
}

void recorder_done(uint64_t event, int64_t source)
{
    if (event == 0 || (event & 1) || !recorder_is_on()) {
        return;
    }
    uint64_t now = clock_wall_ns();
    uint64_t cpu = 0;
    recorder_lock();
    if (recorder_is_on()) {
        pid_t tid = 0;
        const posted *post = &rec.posts[(event >> 1) & (POSTS - 1)];
        if (post->event == event) {
            tid = post->tid;
        } else { /* complete before its post has returned */
            for (uint32_t i = rec.open_top; i > 0; i--) {
                if (rec.open[i - 1].used && rec.open[i - 1].event.id == event) {
                    tid = rec.open[i - 1].tid;
                    break;
                }
            }
        }
        if (tid == 0 || !clock_thread_cpu_ns(tid, &cpu)) {
            cpu = 0;
        }
        record_done(&rec.writer, event, now, cpu, source);
    }
    recorder_unlock();
}

void recorder_interval(uint32_t type, uint32_t thread, const char *name, size_t size, uint64_t start_ns,
                       uint64_t end_ns, uint64_t cpu_ns, uint32_t path)
{
    recorder_lock();
    if (recorder_is_on()) {
        if (!rec.intervals_stopped && writer_bytes(&rec.writer) >= rec.budget / 4 * 3) {
            rec.intervals_stopped = true;
            note_locked("size budget: intervals are no longer recorded");
        }
        if (!rec.intervals_stopped) {
            record_interval(&rec.writer, type, thread, name, size, start_ns,
                            end_ns > start_ns ? end_ns - start_ns : 0, cpu_ns, path);
        }
    }
    recorder_unlock();
}

void recorder_sample(uint32_t thread, uint64_t time_ns, uint32_t path, uint64_t cpu_us, uint64_t core_wait_us,
                     uint32_t state)
{
    recorder_lock();
    if (recorder_is_on()) {
        record_sample(&rec.writer, thread, time_ns, path, cpu_us, core_wait_us, state);
    }
    recorder_unlock();
}
