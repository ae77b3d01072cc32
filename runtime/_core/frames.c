#define PY_SSIZE_T_CLEAN
#include "python_internals.h"

#include "frames.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checksum.h"
#include "recorder.h"

static char own_directory[4096];
static size_t own_directory_size;

void frames_set_own_directory(const char *directory)
{
    size_t size = strlen(directory);
    if (size > 0 && size + 2 < sizeof own_directory) {
        memcpy(own_directory, directory, size + 1);
        if (directory[size - 1] != '/') {
            own_directory[size++] = '/';
            own_directory[size] = 0;
        }
        own_directory_size = size;
    }
}

static bool is_own(const char *file, size_t size)
{
    return own_directory_size > 0 && size > own_directory_size && memcmp(file, own_directory, own_directory_size) == 0;
}

/* ---- paths by the public interface: for interpreters whose frames have no layout here ---- */

static size_t text_of(PyObject *object, char *buffer, size_t capacity)
{
    size_t size = 0;
    PyObject *bytes = object && PyUnicode_Check(object) ? PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape")
                                                        : NULL;
    if (bytes) {
        size = (size_t)PyBytes_GET_SIZE(bytes);
        size = size < capacity ? size : capacity;
        memcpy(buffer, PyBytes_AS_STRING(bytes), size);
        Py_DECREF(bytes);
    }
    PyErr_Clear();
    return size;
}

static uint32_t public_code(PyCodeObject *code, bool *own)
{
    char file[4096], name[1024];
    PyObject *file_object = PyObject_GetAttrString((PyObject *)code, "co_filename");
    PyObject *name_object = PyObject_GetAttrString((PyObject *)code, "co_qualname");
    if (name_object == NULL) {
        PyErr_Clear();
        name_object = PyObject_GetAttrString((PyObject *)code, "co_name");
    }
    code_content_view view = {.file = file, .name = name, .first_line = (uint32_t)code->co_firstlineno, .minor = 0};
    view.file_size = text_of(file_object, file, sizeof file);
    view.name_size = text_of(name_object, name, sizeof name);
    Py_XDECREF(file_object);
    Py_XDECREF(name_object);
    PyErr_Clear();
    *own = is_own(file, view.file_size);
    recorder_lock();
    uint32_t id = recorder_code_locked(&view);
    recorder_unlock();
    return id;
}

static uint32_t public_path_of_self(void)
{
    path_step steps[FRAMES_MAX];
    size_t count = 0;
    bool inner = true;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int line = PyFrame_GetLineNumber(frame);
        bool own;
        uint32_t id = public_code(code, &own);
        Py_DECREF(code);
        inner = inner && own;
        if (!inner && count < FRAMES_MAX) {
            steps[count++] = (path_step){id, line > 0 ? (uint32_t)line : 0};
        }
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    PyErr_Restore(type, value, traceback);
    uint32_t path = 0;
    recorder_lock();
    while (count > 0) {
        count--;
        path = recorder_path_locked(path, steps[count].code, steps[count].lasti);
    }
    recorder_unlock();
    return path;
}

#if !SCALANA_FRAME_LAYOUT

bool frames_prepare(const char **why)
{
    *why = "this interpreter's frames have no known layout";
    return false;
}

uint32_t frames_path_of_self(path_cache *cache)
{
    (void)cache;
    return public_path_of_self();
}

size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole)
{
    (void)access, (void)threads, (void)capacity;
    *whole = false;
    return 0;
}

bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache)
{
    (void)access, (void)thread, (void)stack, (void)cache;
    return false;
}

bool frames_intern(enum memory_access access, const frame_stack *stack, path_cache *cache, uint32_t *path)
{
    (void)access, (void)stack, (void)cache, (void)path;
    return false;
}

#else /* SCALANA_FRAME_LAYOUT */

#if PY_VERSION_HEX >= 0x030E0000
#include "frames_314.h"
#elif PY_VERSION_HEX >= 0x030D0000
#include "frames_313.h"
#elif PY_VERSION_HEX >= 0x030C0000
#include "frames_312.h"
#elif PY_VERSION_HEX >= 0x030B0000
#include "frames_311.h"
#else
#include "frames_310.h"
#endif

#define LONGEST_FILE 4096u
#define LONGEST_NAME 1024u
#define LONGEST_TABLE (1u << 20)
#define MOST_STEPS 16384u
#define MOST_THREADS 4096u
#define WINDOW_PAGES 2u
/* A code object of a file that keeps its place in the stack is checked once in so many samples. */
#define TRUSTED_STACKS 16u
#define PAGE ((uintptr_t)4096)

static bool prepared, usable;
static const char *reason = "not looked at yet";
static uintptr_t main_interpreter;
static uint32_t pthread_tid_offset = FRAMES_NONE;

static uintptr_t word_at(const void *base, uint32_t offset)
{
    uintptr_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static int32_t int_at(const void *base, uint32_t offset)
{
    int32_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static bool plausible(uintptr_t pointer)
{
    return pointer >= PAGE && pointer % sizeof(void *) == 0;
}

/* ---- code objects ---- */

/* Checks a copy of a code object and gives its fingerprint: what changes when another code object takes its address. */
static bool fingerprint_of(const uint8_t *code, uint64_t *print)
{
    PyObject head;
    memcpy(&head, code, sizeof head);
    if (head.ob_type != &PyCode_Type) {
        return false;
    }
    /* Odd multipliers keep the fields apart; the products do not wait for each other. */
    uint64_t hash = (uint64_t)(uint32_t)int_at(code, layout.code_first_line) * UINT64_C(0x9E3779B97F4A7C15) +
                    word_at(code, layout.code_consts) * UINT64_C(0xC2B2AE3D27D4EB4F) +
                    word_at(code, layout.code_names) * UINT64_C(0x165667B19E3779F9) +
                    word_at(code, layout.code_file) * UINT64_C(0x85EBCA77C2B2AE63) +
                    word_at(code, layout.code_name) * UINT64_C(0x27D4EB2F165667C5) +
                    word_at(code, layout.code_qualname) * UINT64_C(0xFF51AFD7ED558CCD) +
                    word_at(code, layout.code_table) * UINT64_C(0xC4CEB9FE1A85EC53);
    if (layout.code_has_length) {
        hash += word_at(code, offsetof(PyVarObject, ob_size)) * UINT64_C(0xD6E8FEB86659FD93);
    }
    if (layout.code_version != FRAMES_NONE) {
        hash += (uint64_t)(uint32_t)int_at(code, layout.code_version) * UINT64_C(0xA0761D6478BD642F);
    }
    *print = hash;
    return true;
}

typedef struct {
    uintptr_t code, instruction;
    int32_t index;
    uint8_t owner;
} raw_frame;

/* Offset of the instruction; false when the frame is not (yet, or any more) that of a running function, which
 * `damaged` tells from one that cannot be. */
static bool instruction_of(const raw_frame *frame, const uint8_t *code, uint32_t *lasti, bool *damaged)
{
    *damaged = false;
    if (layout.instruction_is_index) {
        *damaged = frame->index < -1 || frame->index > (1 << 28);
        *lasti = frame->index > 0 ? (uint32_t)frame->index * 2 : 0;
        return !*damaged;
    }
    int64_t offset = (int64_t)(frame->instruction - (frame->code + layout.code_body));
    int64_t length = (int64_t)word_at(code, offsetof(PyVarObject, ob_size)) * 2;
    if (offset < -2 || offset >= length || (offset & 1)) {
        *damaged = true;
        return false;
    }
    if (frame->owner != layout.owner_generator && offset < 2 * (int64_t)int_at(code, layout.code_first_traceable)) {
        return false; /* still being set up: the interpreter does not show such frames either */
    }
    *lasti = offset > 0 ? (uint32_t)offset : 0;
    return true;
}

/* ---- content of a code object ---- */

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

/* Reads a str, cut at `longest` characters. `to` has room for four bytes per character. */
static bool read_text(enum memory_access access, uintptr_t object, size_t longest, char *to, size_t *size)
{
    PyCompactUnicodeObject head;
    memset(&head, 0, sizeof head);
    if (!plausible(object) || !memory_read(access, &head._base, object, sizeof head._base)) {
        return false;
    }
    PyASCIIObject *base = &head._base;
    if (base->ob_base.ob_type != &PyUnicode_Type || !base->state.compact || base->length < 0) {
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
    *size = encode(kind, count, to);
    return true;
}

static bool read_table(enum memory_access access, uintptr_t object, size_t *size)
{
    PyVarObject head;
    if (!plausible(object) || !memory_read(access, &head, object, sizeof head) ||
        head.ob_base.ob_type != &PyBytes_Type || head.ob_size < 0) {
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
    return memory_read(access, code, address, layout.code_size) && fingerprint_of(code, print);
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
    row->own = is_own(file_text, file_size);
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

/* ---- own thread ---- */


#define INNERMOST (FRAMES_MAX - FRAMES_OUTERMOST)

/* Where the next frame goes: the innermost in order, of the others the last FRAMES_OUTERMOST in a ring. */
static size_t ring_place(size_t seen)
{
    return seen < INNERMOST ? seen : INNERMOST + (seen - INNERMOST) % FRAMES_OUTERMOST;
}

/* Turns the ring of the outermost frames so that they follow the innermost in order. */
static void finish_stack(frame_stack *stack, size_t seen)
{
    stack->cut = seen > FRAMES_MAX;
    stack->count = stack->cut ? FRAMES_MAX : seen;
    if (stack->cut) {
        frame_reference ring[FRAMES_OUTERMOST];
        size_t start = (seen - INNERMOST) % FRAMES_OUTERMOST;
        memcpy(ring, stack->frames + INNERMOST, sizeof ring);
        for (size_t i = 0; i < FRAMES_OUTERMOST; i++) {
            stack->frames[INNERMOST + i] = ring[(start + i) % FRAMES_OUTERMOST];
        }
    }
}

static raw_frame raw_frame_at(const uint8_t *frame)
{
    raw_frame raw = {.code = word_at(frame, layout.frame_code) & ~layout.code_tag_mask};
    if (layout.instruction_is_index) {
        raw.index = int_at(frame, layout.frame_instruction);
    } else {
        raw.instruction = word_at(frame, layout.frame_instruction);
    }
    if (layout.frame_owner != FRAMES_NONE) {
        raw.owner = frame[layout.frame_owner];
    }
    return raw;
}

static uintptr_t current_frame_of(const uint8_t *state)
{
    uintptr_t frame = word_at(state, layout.thread_frame);
    if (layout.cframe_frame != FRAMES_NONE && frame) {
        frame = word_at((const uint8_t *)frame, layout.cframe_frame);
    }
    return frame;
}

static void stack_of_self(frame_stack *stack)
{
    size_t seen = 0;
    uintptr_t at = current_frame_of((const uint8_t *)PyThreadState_Get());
    while (at) {
        const uint8_t *frame = (const uint8_t *)at;
        raw_frame raw = raw_frame_at(frame);
        at = word_at(frame, layout.frame_previous);
        if (raw.owner >= layout.owner_interpreter && layout.frame_owner != FRAMES_NONE) {
            continue;
        }
        frame_reference *place = &stack->frames[ring_place(seen)];
        bool damaged;
        const uint8_t *code = (const uint8_t *)raw.code;
        if (!instruction_of(&raw, code, &place->lasti, &damaged) || !fingerprint_of(code, &place->fingerprint)) {
            continue;
        }
        place->code = raw.code;
        seen++;
    }
    finish_stack(stack, seen);
}

uint32_t frames_path_of_self(path_cache *cache)
{
    if (!prepared) {
        const char *why;
        frames_prepare(&why);
    }
    if (!usable) {
        return public_path_of_self();
    }
    frame_stack stack;
    uint32_t path = 0;
    stack_of_self(&stack);
    frames_intern(MEMORY_DIRECT, &stack, cache, &path);
    return path;
}

/* ---- other threads ---- */

/* A stretch of another thread's data stack, where frames lie close together, the outer ones below. */
typedef struct {
    uintptr_t low, high;
    uint8_t bytes[WINDOW_PAGES * PAGE + PAGE];
} window;

/* Two, so that a generator's frame on the heap does not cost the view of the stack. */
static window windows[2];
static unsigned oldest_window;

static void drop_windows(void)
{
    windows[0].low = windows[0].high = windows[1].low = windows[1].high = 0;
}

static const uint8_t *frame_in_window(enum memory_access access, uintptr_t at)
{
    for (unsigned i = 0; i < 2; i++) {
        if (at >= windows[i].low && at + layout.frame_size <= windows[i].high) {
            return windows[i].bytes + (at - windows[i].low);
        }
    }
    /* The frame's own page first, then those below: whatever of these is mapped. */
    memory_range ranges[WINDOW_PAGES];
    window *w = &windows[oldest_window];
    uintptr_t page = at & ~(PAGE - 1);
    size_t pages = WINDOW_PAGES;
    uint8_t *place = w->bytes + (pages - 1) * PAGE;
    ranges[0] = (memory_range){page, place, at - page + layout.frame_size};
    for (size_t i = 1; i < pages; i++) {
        ranges[i] = (memory_range){page - i * PAGE, place - i * PAGE, PAGE};
    }
    w->low = w->high = 0;
    size_t got = memory_read_ranges(access, ranges, pages);
    if (got == 0) {
        return NULL;
    }
    if (got < pages) { /* keep bytes and addresses in step */
        memmove(w->bytes, place - (got - 1) * PAGE, (got - 1) * PAGE + ranges[0].size);
    }
    w->low = page - (got - 1) * PAGE;
    w->high = page + ranges[0].size;
    oldest_window ^= 1;
    return w->bytes + (at - w->low);
}

static uint8_t codes[FRAMES_MAX][FRAMES_CODE_SIZE];
static raw_frame raws[FRAMES_MAX];

/* Follows the chain of frames into `raws`, innermost first; false when it breaks. */
static bool read_chain(enum memory_access access, uintptr_t at, size_t *seen)
{
    *seen = 0;
    drop_windows();
    for (size_t steps = 0; at != 0; steps++) {
        const uint8_t *frame = plausible(at) && steps < MOST_STEPS ? frame_in_window(access, at) : NULL;
        if (frame == NULL) {
            return false;
        }
        raw_frame raw = raw_frame_at(frame);
        at = word_at(frame, layout.frame_previous);
        if (layout.frame_owner != FRAMES_NONE && raw.owner >= layout.owner_interpreter) {
            continue;
        }
        raws[ring_place(*seen)] = raw;
        (*seen)++;
    }
    return true;
}

/* Frames that are objects lie anywhere on the heap, and are reused as soon as their function returns. Those that the
 * previous stack had are all read at once. When the chain is complete it is read a second time, and what is not the same
 * any more, with all that is inside of it, is left out: the thread was in the frame around it both times. */
#define FRAME_OBJECT_SIZE 128u

typedef struct {
    uintptr_t address;
    uint8_t bytes[FRAME_OBJECT_SIZE];
} frame_object;

static frame_object expected_frames[FRAMES_MAX], found_frames[FRAMES_MAX];
static size_t expected_frame_count;

static size_t read_frame_objects(enum memory_access access, frame_object *frames, size_t count)
{
    memory_range ranges[FRAMES_MAX];
    for (size_t i = 0; i < count; i++) {
        ranges[i] = (memory_range){frames[i].address, frames[i].bytes, layout.frame_size};
    }
    return count ? memory_read_ranges(access, ranges, count) : 0;
}

/* A frame of a running call. Dead ones keep their type, and the link to the next in the list of free ones. */
static bool is_running_frame(const uint8_t *frame)
{
    return word_at(frame, offsetof(PyObject, ob_type)) == (uintptr_t)&PyFrame_Type &&
           (layout.frame_state == FRAMES_NONE || frame[layout.frame_state] == 0);
}

static bool read_object_chain(enum memory_access access, uintptr_t at, size_t *seen)
{
    size_t known = read_frame_objects(access, expected_frames, expected_frame_count), next = 0, count = 0;
    for (; at != 0 && count < FRAMES_MAX; count++) {
        frame_object *found = &found_frames[count];
        size_t same = next;
        while (same < known && expected_frames[same].address != at) {
            same++;
        }
        if (same < known) {
            *found = expected_frames[same];
            next = same + 1;
        } else if (!plausible(at) || !memory_read(access, found->bytes, at, layout.frame_size)) {
            return false;
        }
        if (!is_running_frame(found->bytes)) {
            return false;
        }
        found->address = at;
        at = word_at(found->bytes, layout.frame_previous);
    }
    memcpy(expected_frames, found_frames, count * sizeof *found_frames);
    expected_frame_count = count;
    if (read_frame_objects(access, expected_frames, count) != count) {
        return false;
    }
    size_t inner = count;
    while (inner > 0) {
        const uint8_t *before = found_frames[inner - 1].bytes, *after = expected_frames[inner - 1].bytes;
        if (!is_running_frame(after) || word_at(before, layout.frame_previous) != word_at(after, layout.frame_previous) ||
            word_at(before, layout.frame_code) != word_at(after, layout.frame_code)) {
            break;
        }
        inner--;
    }
    *seen = count - inner;
    for (size_t i = inner; i < count; i++) {
        raws[i - inner] = raw_frame_at(expected_frames[i].bytes);
    }
    return *seen > 0 || count == 0;
}

/* Copies the code objects of the innermost `count` frames, neighbours of the same code once. */
static bool read_codes(enum memory_access access, size_t count)
{
    memory_range ranges[FRAMES_MAX];
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!plausible(raws[i].code)) {
            return false;
        }
        if (i == 0 || raws[i].code != raws[i - 1].code) {
            ranges[wanted++] = (memory_range){raws[i].code, codes[i], layout.code_size};
        }
    }
    if (wanted > 0 && memory_read_ranges(access, ranges, wanted) != wanted) {
        return false;
    }
    for (size_t i = 1; i < count; i++) {
        if (raws[i].code == raws[i - 1].code) {
            memcpy(codes[i], codes[i - 1], layout.code_size);
        }
    }
    return true;
}

/* How many of the outermost frames are where they were in the previous stack, in code that is not generated. */
static size_t unchanged(const path_cache *cache, size_t kept)
{
    size_t same = 0;
    while (same < kept && same < cache->count) {
        const raw_frame *raw = &raws[kept - 1 - same];
        const cached_step *step = &cache->steps[same];
        uint32_t lasti = layout.instruction_is_index ? (raw->index > 0 ? (uint32_t)raw->index * 2 : 0)
                                                     : (uint32_t)(raw->instruction - raw->code - layout.code_body);
        if (step->frame.code != raw->code || step->frame.lasti != lasti || step->generated) {
            break;
        }
        same++;
    }
    return same;
}

/* Turns the ring of the outermost frames in `raws`, so that they follow the innermost in order. */
static void unroll_raws(size_t seen)
{
    if (seen > FRAMES_MAX) {
        raw_frame ring[FRAMES_OUTERMOST];
        memcpy(ring, raws + INNERMOST, sizeof ring);
        for (size_t i = 0; i < FRAMES_OUTERMOST; i++) {
            raws[INNERMOST + i] = ring[(seen - INNERMOST + i) % FRAMES_OUTERMOST];
        }
    }
}

static bool read_current_frame(enum memory_access access, python_thread *thread, uintptr_t *frame)
{
    if (layout.cframe_frame == FRAMES_NONE) {
        return memory_read(access, frame, thread->state + layout.thread_frame, sizeof *frame);
    }
    uintptr_t holder = 0;
    const memory_range ranges[] = {{thread->state + layout.thread_frame, &holder, sizeof holder},
                                   {thread->guess + layout.cframe_frame, frame, sizeof *frame}};
    size_t got = memory_read_ranges(access, ranges, thread->guess ? 2 : 1);
    if (got == 2 && holder == thread->guess) {
        return true;
    }
    thread->guess = holder;
    *frame = 0;
    return got > 0 && (holder == 0 || memory_read(access, frame, holder + layout.cframe_frame, sizeof *frame));
}

bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache)
{
    uintptr_t at;
    size_t seen;
    stack->count = 0;
    stack->cut = false;
    if (!read_current_frame(access, thread, &at) ||
        !(layout.frame_is_object ? read_object_chain(access, at, &seen) : read_chain(access, at, &seen))) {
        return false;
    }
    unroll_raws(seen);
    size_t kept = seen < FRAMES_MAX ? seen : FRAMES_MAX;
    size_t same = 0;
    if (cache->generation == recorder_generation() && seen <= FRAMES_MAX && ++cache->trusted < TRUSTED_STACKS) {
        same = unchanged(cache, kept);
    } else {
        cache->trusted = 0;
    }
    if (!read_codes(access, kept - same)) {
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < kept; i++) {
        frame_reference *frame = &stack->frames[count];
        bool damaged;
        if (i >= kept - same) {
            *frame = cache->steps[kept - 1 - i].frame;
        } else if (!fingerprint_of(codes[i], &frame->fingerprint)) {
            return false;
        } else if (!instruction_of(&raws[i], codes[i], &frame->lasti, &damaged)) {
            if (damaged) {
                return false;
            }
            continue;
        }
        frame->code = raws[i].code;
        count++;
    }
    stack->count = count;
    /* With a set-up frame left out the mark of the cut would be one frame off: no harm. */
    stack->cut = seen > FRAMES_MAX && count > FRAMES_OUTERMOST;
    return true;
}

/* ---- the list of threads ---- */

#define THREAD_SPAN 512u

static uint32_t thread_span(void)
{
    uint32_t offsets[] = {layout.thread_next, layout.thread_interp, layout.thread_frame, layout.thread_pthread,
                          layout.thread_native_id == FRAMES_NONE ? 0 : layout.thread_native_id};
    uint32_t span = 0;
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        span = offsets[i] > span ? offsets[i] : span;
    }
    return span + (uint32_t)sizeof(uintptr_t);
}

/* Thread states of the latest pass. They seldom change, so all of them are read at once, and then the links checked. */
#define EXPECTED_THREADS 64
static uintptr_t expected[EXPECTED_THREADS];
static size_t expected_count;
static uint8_t spans[EXPECTED_THREADS][THREAD_SPAN];

static bool tid_of(enum memory_access access, const uint8_t *span, pid_t *tid)
{
    if (layout.thread_native_id != FRAMES_NONE) {
        *tid = (pid_t)word_at(span, layout.thread_native_id);
        return *tid > 0;
    }
    int32_t number = 0;
    uintptr_t pthread = word_at(span, layout.thread_pthread);
    if (pthread == 0 || !memory_read(access, &number, pthread + pthread_tid_offset, sizeof number)) {
        return false;
    }
    *tid = number;
    return number > 0;
}

size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole)
{
    memory_range ranges[EXPECTED_THREADS + 1];
    uintptr_t at = 0;
    uint32_t size = thread_span();
    uint8_t one[THREAD_SPAN];
    *whole = false;
    if (!usable) {
        return 0;
    }
    ranges[0] = (memory_range){main_interpreter + layout.interp_head, &at, sizeof at};
    for (size_t i = 0; i < expected_count; i++) {
        ranges[i + 1] = (memory_range){expected[i], spans[i], size};
    }
    size_t got = memory_read_ranges(access, ranges, expected_count + 1);
    if (got == 0) {
        expected_count = 0;
        return 0;
    }
    size_t known = got - 1, count = 0;
    for (size_t steps = 0; at != 0 && steps < MOST_THREADS && count < capacity; steps++) {
        const uint8_t *span = steps < known && expected[steps] == at ? spans[steps] : one;
        if (span == one && (!plausible(at) || !memory_read(access, one, at, size))) {
            break; /* it ended meanwhile: the rest at the next pass */
        }
        if (word_at(span, layout.thread_interp) != main_interpreter) {
            break;
        }
        if (tid_of(access, span, &threads[count].tid)) {
            threads[count].state = at;
            threads[count].guess = 0;
            count++;
        }
        if (steps < EXPECTED_THREADS) {
            if (expected[steps] != at || steps >= known) {
                known = 0; /* the rest has moved */
            }
            expected[steps] = at;
            expected_count = steps + 1;
        }
        at = word_at(span, layout.thread_next);
    }
    *whole = at == 0;
    return count;
}

/* ---- self-test ---- */

static pid_t own_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* Where a struct pthread holds its kernel id: the C library has no word for it. */
static uint32_t find_pthread_tid(void)
{
    uint8_t bytes[2048];
    int32_t tid = (int32_t)own_tid();
    uint32_t found = FRAMES_NONE;
    enum memory_access access = memory_guarded_access();
    for (uint32_t size = sizeof bytes; size >= 512; size /= 2) {
        if (memory_read(access, bytes, (uintptr_t)pthread_self(), size)) {
            for (uint32_t at = 0; at + 8 <= size && found == FRAMES_NONE; at += 4) {
                if (int_at(bytes, at) == tid) {
                    found = at;
                }
            }
            return found;
        }
    }
    return FRAMES_NONE;
}

/* Whether the walk agrees with what the interpreter itself says of the calling thread. */
static const char *disagreement(void)
{
    PyThreadState *state = PyThreadState_Get();
    if (layout.code_size > FRAMES_CODE_SIZE || thread_span() > THREAD_SPAN ||
        (layout.frame_is_object && layout.frame_size > FRAME_OBJECT_SIZE)) {
        return "this interpreter's objects are larger than expected";
    }
    if (word_at((const uint8_t *)main_interpreter, layout.interp_head) !=
        (uintptr_t)PyInterpreterState_ThreadHead(PyInterpreterState_Main())) {
        return "the list of threads is not where it should be";
    }
    if (word_at(state, layout.thread_interp) != (uintptr_t)PyThreadState_GetInterpreter(state)) {
        return "thread states are not laid out as they should be";
    }
    if (layout.thread_native_id != FRAMES_NONE && word_at(state, layout.thread_native_id) != (uintptr_t)own_tid()) {
        return "thread states do not hold kernel ids";
    }
    static frame_stack stack;
    stack_of_self(&stack);
    PyFrameObject *frame = PyThreadState_GetFrame(state);
    size_t at = 0;
    const char *why = NULL;
    while (frame && !why) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (at < INNERMOST) {
            if (at >= stack.count || stack.frames[at].code != (uintptr_t)code) {
                why = "frames are not laid out as they should be";
            }
#if PY_VERSION_HEX >= 0x030B0000
            else if (PyFrame_GetLasti(frame) != (int)stack.frames[at].lasti) {
                why = "instructions are not where they should be";
            }
#endif
        }
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
        at++;
    }
    Py_XDECREF(frame);
    if (!why && at < INNERMOST && stack.count != at) {
        why = "there are more frames than there should be";
    }
    return why;
}

bool frames_prepare(const char **why)
{
    if (!prepared) {
        main_interpreter = (uintptr_t)PyInterpreterState_Main();
        reason = disagreement();
        if (!reason && layout.thread_native_id == FRAMES_NONE) {
            pthread_tid_offset = find_pthread_tid();
            if (pthread_tid_offset == FRAMES_NONE) {
                reason = "kernel ids of threads cannot be found";
            }
        }
        usable = reason == NULL;
        prepared = true;
    }
    *why = reason;
    return usable;
}

#endif /* SCALANA_FRAME_LAYOUT */
