#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/threads.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "frames/objects.h"
#include "frames/state.h"

#if !SCALANA_FRAME_LAYOUT

size_t frames_threads(enum memory_access access, python_thread *threads, size_t capacity, bool *whole)
{
    (void)access, (void)threads, (void)capacity;
    *whole = false;
    return 0;
}

size_t frames_describe(char *text, size_t capacity)
{
    (void)text, (void)capacity;
    return 0;
}

#else /* SCALANA_FRAME_LAYOUT */

#define MOST_THREADS 4096u
#define THREAD_SPAN 512u

static uintptr_t main_interpreter;
static uint32_t pthread_tid_offset = FRAMES_NONE;

uintptr_t frames_main_interpreter(void)
{
    return main_interpreter;
}

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
    memory_range ranges[EXPECTED_THREADS + 2];
    uintptr_t at = 0;
    uint64_t made = 0;
    uint32_t size = thread_span();
    uint8_t one[THREAD_SPAN];
    *whole = false;
    if (!frames_are_usable) {
        return 0;
    }
    /* The count first: a thread that comes in between is found again at the next pass, not missed. */
    ranges[0] = (memory_range){main_interpreter + layout.interp_made, &made, sizeof made};
    ranges[1] = (memory_range){main_interpreter + layout.interp_head, &at, sizeof at};
    for (size_t i = 0; i < expected_count; i++) {
        ranges[i + 2] = (memory_range){expected[i], spans[i], size};
    }
    size_t got = memory_read_ranges(access, ranges, expected_count + 2);
    if (got < 2) {
        expected_count = 0;
        return 0;
    }
    size_t known = got - 2, count = 0;
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
            threads[count].made = made;
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

const char *frames_threads_prepare(void)
{
    PyThreadState *state = PyThreadState_Get();
    main_interpreter = (uintptr_t)PyInterpreterState_Main();
    if (thread_span() > THREAD_SPAN) {
        return "this interpreter's objects are larger than expected";
    }
    if (word_at((const uint8_t *)main_interpreter, layout.interp_head) !=
        (uintptr_t)PyInterpreterState_ThreadHead(PyInterpreterState_Main())) {
        return "the list of threads is not where it should be";
    }
    if (word_at(state, layout.thread_interp) != (uintptr_t)PyThreadState_GetInterpreter(state)) {
        return "thread states are not laid out as they should be";
    }
    if (layout.thread_native_id == FRAMES_NONE) {
        pthread_tid_offset = find_pthread_tid();
        return pthread_tid_offset == FRAMES_NONE ? "kernel ids of threads cannot be found" : NULL;
    }
    if (word_at(state, layout.thread_native_id) != (uintptr_t)own_tid()) {
        return "thread states do not hold kernel ids";
    }
    return NULL;
}

/* ---- for readers in another process ---- */

/* Before 3.11, frames have no table of exceptions; since 3.14, a lock that is waited for has no address of its own. */
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000

size_t frames_describe(char *text, size_t capacity)
{
    const struct {
        const char *name;
        size_t number;
    } rows[] = {
        {"minor", layout.minor},
        {"interpreter", frames_main_interpreter()},
        {"interp_head", layout.interp_head},
        {"thread_next", layout.thread_next},
        {"thread_native_id", layout.thread_native_id},
        {"thread_ident", layout.thread_pthread},
        {"thread_frame", layout.thread_frame},
        {"cframe_frame", layout.cframe_frame == FRAMES_NONE ? 0 : layout.cframe_frame + 1u}, /* 0: there is none */
        {"frame_code", layout.frame_code},
        {"frame_previous", layout.frame_previous},
        {"frame_globals", layout.frame_globals},
        {"frame_instruction", layout.frame_instruction},
        {"frame_owner", layout.frame_owner},
        {"frame_slots", offsetof(_PyInterpreterFrame, localsplus)},
        {"owner_generator", layout.owner_generator},
        {"owner_interpreter", layout.owner_interpreter},
        {"code_first_line", layout.code_first_line},
        {"code_file", layout.code_file},
        {"code_name", layout.code_qualname},
        {"code_lines", layout.code_table},
        {"code_exceptions", offsetof(PyCodeObject, co_exceptiontable)},
        {"code_locals", offsetof(PyCodeObject, co_nlocalsplus)},
        {"code_local_names", offsetof(PyCodeObject, co_localsplusnames)},
        {"code_body", layout.code_body},
        {"code_first_traceable", layout.code_first_traceable},
        {"text_ascii", sizeof(PyASCIIObject)},
        {"text_other", sizeof(PyCompactUnicodeObject)},
        {"type_keys", offsetof(PyHeapTypeObject, ht_cached_keys)},
    };
    size_t size = 0;
    for (size_t i = 0; frames_are_usable && i < sizeof rows / sizeof *rows && size < capacity; i++) {
        int more = snprintf(text + size, capacity - size, "%s%s=%zu", i ? " " : "", rows[i].name, rows[i].number);
        size += more > 0 ? (size_t)more : 0;
    }
    return size < capacity ? size : 0;
}

#else

size_t frames_describe(char *text, size_t capacity)
{
    (void)text, (void)capacity;
    return 0;
}

#endif

#endif /* SCALANA_FRAME_LAYOUT */
