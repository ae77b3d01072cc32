#include "recorder/definitions.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "record/kinds.h"
#include "record/writer.h"
#include "recorder/lock.h"
#include "recorder/state.h"

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
                rec.threads[at] = (thread_row){tid, 0, *bucket, 0};
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
bool recorder_may_define_locked(void)
{
    if (rec.definitions_stopped) {
        return false;
    }
    if (rec.budget && writer_bytes(&rec.writer) >= rec.budget - rec.budget / 16) {
        rec.definitions_stopped = true;
        recorder_note_locked("size budget: new call paths are no longer recorded");
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
    uint32_t id = code_by_content(&rec.codes, hash, recorder_may_define_locked(), &fresh);
    if (fresh) {
        record_code(&rec.writer, id, code->file, code->file_size, code->name, code->name_size, code->first_line,
                    code->minor, code->table, code->table_size);
    }
    return id;
}

uint32_t recorder_path_locked(uint32_t parent, uint32_t code, uint32_t lasti)
{
    bool fresh;
    uint32_t id = path_intern(&rec.paths, parent, code, lasti, recorder_may_define_locked(), &fresh);
    if (fresh) {
        record_path(&rec.writer, id, parent, code, lasti);
    }
    return id;
}
