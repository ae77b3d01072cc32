#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/code.h"

#include <stdlib.h>

#include "frames/objects.h"
#include "frames/other.h"
#include "frames/state.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"

#if !SCALANA_FRAME_LAYOUT

bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path)
{
    (void)access, (void)stack, (void)cache, (void)path;
    return false;
}

#else /* SCALANA_FRAME_LAYOUT */

#define LONGEST_FILE 4096u
#define LONGEST_NAME 1024u
#define LONGEST_TABLE (1u << 20)

/* One scratch area, under the recorder's lock. */
static uint8_t raw_text[4 * LONGEST_FILE];
static char file_text[4 * LONGEST_FILE], name_text[4 * LONGEST_NAME];
static uint8_t *table_bytes;
static size_t table_capacity;

static uint32_t character(int kind, size_t i)
{
    if (kind == 1) {
        return raw_text[i];
    }
    if (kind == 2) {
        uint16_t c;
        memcpy(&c, raw_text + 2 * i, sizeof c);
        return c;
    }
    uint32_t c;
    memcpy(&c, raw_text + 4 * i, sizeof c);
    return c;
}

/* Lone surrogates U+DC80..U+DCFF stand for bytes of file names that are not UTF-8, and become these bytes again. */
static size_t encode(int kind, size_t count, char *to)
{
    char *p = to;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = character(kind, i);
        if (c < 0x80) {
            *p++ = (char)c;
        } else if (c < 0x800) {
            *p++ = (char)(0xC0 | c >> 6);
            *p++ = (char)(0x80 | (c & 0x3F));
        } else if (c >= 0xDC80 && c <= 0xDCFF) {
            *p++ = (char)(c & 0xFF);
        } else if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) {
            *p++ = '?';
        } else if (c < 0x10000) {
            *p++ = (char)(0xE0 | c >> 12);
            *p++ = (char)(0x80 | (c >> 6 & 0x3F));
            *p++ = (char)(0x80 | (c & 0x3F));
        } else {
            *p++ = (char)(0xF0 | c >> 18);
            *p++ = (char)(0x80 | (c >> 12 & 0x3F));
            *p++ = (char)(0x80 | (c >> 6 & 0x3F));
            *p++ = (char)(0x80 | (c & 0x3F));
        }
    }
    return (size_t)(p - to);
}

/* Whether what was read may be text of a program at all, and not what has taken its place in memory. The interpreter lets
 * no NUL into names of files and functions. */
static bool is_text(int kind, size_t count, bool ascii)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t c = character(kind, i);
        if (c == 0 || c > 0x10FFFF || (ascii && c > 0x7F)) {
            return false;
        }
    }
    return true;
}

/* Freed objects keep their type, but small ones have a link to the next in place of the count of references. */
static bool is_alive(const PyObject *head)
{
#if PY_VERSION_HEX >= 0x030E0000
    return Py_REFCNT((PyObject *)head) != 0; /* flags stand beside the count */
#else
    return head->ob_refcnt > 0 && head->ob_refcnt < (Py_ssize_t)1 << 40;
#endif
}

/* Reads a str, cut at `longest` characters. `to` has room for four bytes per character. */
static bool read_text(enum memory_access access, uintptr_t object, size_t longest, char *to, size_t *size)
{
    PyCompactUnicodeObject head;
    memset(&head, 0, sizeof head);
    if (!plausible(object) || !memory_read(access, &head._base, object, sizeof head._base)) {
        return false;
    }
    PyASCIIObject *base = &head._base;
    if (base->ob_base.ob_type != &PyUnicode_Type || !is_alive(&base->ob_base) || !base->state.compact ||
        base->length < 0) {
        return false;
    }
    int kind = (int)base->state.kind;
    if (kind != 1 && kind != 2 && kind != 4) {
        return false;
    }
    size_t count = (size_t)base->length < longest ? (size_t)base->length : longest;
    uintptr_t data = object + (base->state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject));
    if (count > 0 && !memory_read(access, raw_text, data, count * (size_t)kind)) {
        return false;
    }
    if (!is_text(kind, count, base->state.ascii)) {
        return false;
    }
    *size = encode(kind, count, to);
    return true;
}

static bool read_table(enum memory_access access, uintptr_t object, size_t *size)
{
    PyVarObject head;
    if (!plausible(object) || !memory_read(access, &head, object, sizeof head) ||
        head.ob_base.ob_type != &PyBytes_Type || !is_alive(&head.ob_base) || head.ob_size < 0) {
        return false;
    }
    *size = (size_t)head.ob_size;
    if (*size > LONGEST_TABLE) { /* lines of such a function are beyond us, its name is not */
        *size = 0;
    }
    if (*size > table_capacity) {
        size_t capacity = *size * 2;
        uint8_t *larger = realloc(table_bytes, capacity);
        if (larger == NULL) {
            return false;
        }
        table_bytes = larger;
        table_capacity = capacity;
    }
    return *size == 0 || memory_read(access, table_bytes, object + offsetof(PyBytesObject, ob_sval), *size);
}

static bool read_fingerprint(enum memory_access access, uintptr_t address, uint8_t *code, uint64_t *print)
{
    return memory_read(access, code, address, layout.code_size) && frames_fingerprint(code, print);
}

/* The hash that a name carries. Where code objects have no version, it tells generated ones apart that came to lie at
 * the same address with all their parts: they are made and freed in turns of the same allocations. */
static bool read_name_hash(enum memory_access access, uintptr_t code, uint64_t *hash)
{
    uintptr_t name;
    *hash = 0;
    return layout.code_version != FRAMES_NONE ||
           (memory_read(access, &name, code + layout.code_qualname, sizeof name) && plausible(name) &&
            memory_read(access, hash, name + offsetof(PyASCIIObject, hash), sizeof *hash));
}

static bool is_generated(const char *file, size_t size)
{
    return size > 0 && file[0] == '<' && !(size > 8 && memcmp(file, "<frozen ", 8) == 0);
}

/* Under the recorder's lock. Reads and interns the code object of `frame` into `row`. */
static bool read_code_locked(enum memory_access access, const frame_reference *frame, code_address *row)
{
    uint8_t code[FRAMES_CODE_SIZE];
    uint64_t before, after, name_hash;
    size_t file_size, name_size, table_size;
    if (!read_fingerprint(access, frame->code, code, &before) || before != frame->fingerprint ||
        !read_text(access, word_at(code, layout.code_file), LONGEST_FILE, file_text, &file_size) ||
        !read_text(access, word_at(code, layout.code_qualname), LONGEST_NAME, name_text, &name_size) ||
        !read_table(access, word_at(code, layout.code_table), &table_size) ||
        !read_name_hash(access, frame->code, &name_hash) ||
        !read_fingerprint(access, frame->code, code, &after) || after != before) {
        return false; /* it went away meanwhile */
    }
    int32_t first_line = int_at(code, layout.code_first_line);
    code_content_view view = {
        .file = file_text,
        .name = name_text,
        .file_size = file_size,
        .name_size = name_size,
        .first_line = first_line > 0 ? (uint32_t)first_line : 0,
        .minor = layout.minor,
        .table = table_bytes,
        .table_size = table_size,
    };
    row->id = recorder_code_locked(&view);
    row->fingerprint = before;
    row->own = frames_file_is_own(file_text, file_size);
    row->generated = is_generated(file_text, file_size);
    row->name_hash = name_hash;
    return row->id != 0;
}

/* Whether `row` still stands for the code object of `frame`; if not it is read anew. */
static bool code_is_known_locked(enum memory_access access, const frame_reference *frame, code_address *row)
{
    uint64_t name_hash;
    if (row->id != 0 && row->fingerprint == frame->fingerprint &&
        (!row->generated || (read_name_hash(access, frame->code, &name_hash) && name_hash == row->name_hash))) {
        return true;
    }
    return read_code_locked(access, frame, row);
}

/* ---- interning a stack ---- */

static uint32_t cut_mark_locked(uint32_t path)
{
    const code_content_view view = {.file = "[native]", .file_size = 8, .name = "[frames left out]", .name_size = 17};
    return recorder_path_locked(path, recorder_code_locked(&view), 0);
}

bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path)
{
    bool whole = true;
    size_t outer = 0; /* frames taken, counted from the outermost */
    uint32_t at = 0;
    uint32_t beyond = 0; /* innermost path so far that is not within scalana's runtime */
    recorder_lock();
    uint64_t generation = recorder_generation();
    if (cache->generation != generation) {
        cache->generation = generation;
        cache->count = 0;
        frames_doubt(&cache->hints);
    }
    for (; outer < stack->count && outer < cache->count; outer++) {
        const frame_reference *frame = &stack->frames[stack->count - 1 - outer];
        const cached_step *known = &cache->steps[outer];
        if (known->frame.code != frame->code || known->frame.fingerprint != frame->fingerprint ||
            known->frame.lasti != frame->lasti || known->generated) {
            break;
        }
        at = known->path;
        beyond = known->own ? beyond : at;
        if (stack->cut && outer + 1 == FRAMES_OUTERMOST) {
            at = cut_mark_locked(at);
        }
    }
    cache->count = outer;
    for (; outer < stack->count; outer++) {
        const frame_reference *frame = &stack->frames[stack->count - 1 - outer];
        code_address *row = recorder_code_at_locked(frame->code);
        if (row == NULL || !code_is_known_locked(access, frame, row)) {
            whole = false;
            break;
        }
        at = recorder_path_locked(at, row->id, frame->lasti);
        if (at == 0) {
            whole = false;
            break;
        }
        beyond = row->own ? beyond : at;
        if (!row->generated) {
            frames_trust(&cache->hints, frame->code);
        }
        if (outer < PATH_CACHE) {
            cache->steps[outer] = (cached_step){*frame, at, row->own, row->generated};
            cache->count = outer + 1;
        }
        if (stack->cut && outer + 1 == FRAMES_OUTERMOST) {
            at = cut_mark_locked(at);
        }
    }
    recorder_unlock();
    *path = beyond;
    return whole;
}

#endif /* SCALANA_FRAME_LAYOUT */
