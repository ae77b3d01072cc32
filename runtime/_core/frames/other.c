#define PY_SSIZE_T_CLEAN
#include "frames/python_internals.h"

#include "frames/other.h"

#include "frames/objects.h"
#include "frames/threads.h"
#include "recorder/lock.h"

#if !SCALANA_FRAME_LAYOUT

bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache)
{
    (void)access, (void)thread, (void)stack, (void)cache;
    return false;
}

void frames_doubt(stack_hints *hints)
{
    (void)hints;
}

#else /* SCALANA_FRAME_LAYOUT */

#define MOST_STEPS 16384u
#define WINDOW_PAGES 2u
/* Room for frames that will be called beyond the innermost of the latest stack. */
#define HINT_ROOM 1024u
/* A code object of a file that keeps its place in the stack is checked once in so many samples. */
#define TRUSTED_STACKS 64u

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
        if (memory_holds(windows[i].low, windows[i].high, at, layout.frame_size)) {
            return windows[i].bytes + (at - windows[i].low);
        }
    }
    window *w = &windows[oldest_window];
    uintptr_t page = at & ~(PAGE - 1);
    uintptr_t lasting = memory_lasting_from(at);
    size_t pages = WINDOW_PAGES;
    if (lasting) {
        uintptr_t lowest = page - (pages - 1) * PAGE;
        w->low = lasting > lowest ? lasting : lowest;
        w->high = at + layout.frame_size;
        oldest_window ^= 1;
        if (!memory_read(access, w->bytes, w->low, w->high - w->low)) {
            w->low = w->high = 0; /* nothing of it may be found there later */
            return NULL;
        }
        return w->bytes + (at - w->low);
    }
    /* The frame's own page first, then those below: whatever of these is mapped. */
    memory_range ranges[WINDOW_PAGES];
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
static code_shape shapes[FRAMES_MAX];
static raw_frame raws[FRAMES_MAX];

/* Says where to look for the next stack: around the frames from `low` to `high`, and not beyond the page of the last,
 * since what follows need not be mapped. */
static void hint_frames(stack_hints *hints, uintptr_t low, uintptr_t high)
{
    uintptr_t end = high + layout.frame_size;
    uintptr_t page_end = (end + PAGE - 1) & ~(PAGE - 1);
    hints->high = end + HINT_ROOM < page_end ? end + HINT_ROOM : page_end;
    hints->low = hints->high - low <= sizeof windows[0].bytes ? low : hints->high - sizeof windows[0].bytes;
}

/* Follows the chain of frames into `raws`, innermost first; false when it breaks. */
static bool read_chain(enum memory_access access, uintptr_t at, size_t *seen, stack_hints *hints)
{
    *seen = 0;
    bool in_generator = false;
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (size_t steps = 0; at != 0; steps++) {
        const uint8_t *frame = plausible(at) && steps < MOST_STEPS ? frame_in_window(access, at) : NULL;
        if (frame == NULL) {
            return false;
        }
        raw_frame raw = raw_frame_at(frame);
        uintptr_t here = at;
        at = word_at(frame, layout.frame_previous);
        if (layout.frame_owner != FRAMES_NONE && raw.owner >= layout.owner_interpreter) {
            continue;
        }
        in_generator = layout.frame_owner != FRAMES_NONE && raw.owner == layout.owner_generator;
        if (!in_generator) {
            high = high ? high : here;
            low = here < low && here <= high ? here : low;
        }
        raws[ring_place(*seen)] = raw;
        (*seen)++;
    }
    if (high) {
        hint_frames(hints, low, high);
    }
    /* A generator that has just yielded is called by nobody: it was left while its frame was being read. */
    return !in_generator;
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

static unsigned place_of_code(uintptr_t code)
{
    return (unsigned)((uint64_t)code * UINT64_C(0x9E3779B97F4A7C15) >> 32) % KNOWN_CODES;
}

static const struct known_code *known_code(const stack_hints *hints, const raw_frame *frame)
{
    const struct known_code *known = &hints->codes[place_of_code(frame->code)];
    return known->trusted && known->code == frame->code && known->globals == frame->globals &&
                   known->epoch == hints->epoch
               ? known
               : NULL;
}

static void remember_code(stack_hints *hints, const raw_frame *frame, const code_shape *shape)
{
    struct known_code *known = &hints->codes[place_of_code(frame->code)];
    bool same = known->code == frame->code && known->shape.fingerprint == shape->fingerprint;
    *known = (struct known_code){frame->code, frame->globals, *shape, hints->epoch, same && known->trusted};
}

void frames_trust(stack_hints *hints, uintptr_t code)
{
    struct known_code *known = &hints->codes[place_of_code(code)];
    known->trusted = known->code == code;
}

void frames_doubt(stack_hints *hints)
{
    hints->epoch++;
}

/* Finds the shapes of the code objects of the innermost `count` frames: what is not known is read, neighbours of the
 * same code once. */
static bool read_codes(enum memory_access access, size_t count, stack_hints *hints)
{
    memory_range ranges[FRAMES_MAX];
    uint32_t frames[FRAMES_MAX];
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!plausible(raws[i].code)) {
            return false;
        }
        const struct known_code *known = known_code(hints, &raws[i]);
        if (known) {
            shapes[i] = known->shape;
        } else if (i == 0 || raws[i].code != raws[i - 1].code || raws[i].globals != raws[i - 1].globals) {
            frames[wanted] = (uint32_t)i;
            ranges[wanted++] = (memory_range){raws[i].code, codes[i], layout.code_size};
        }
    }
    if (wanted > 0 && memory_read_ranges(access, ranges, wanted) != wanted) {
        return false;
    }
    for (size_t i = 0; i < wanted; i++) {
        size_t first = frames[i];
        if (!shape_of(codes[first], &shapes[first])) {
            return false;
        }
        remember_code(hints, &raws[first], &shapes[first]);
        for (size_t same = first + 1; same < count && raws[same].code == raws[first].code &&
                                      raws[same].globals == raws[first].globals; same++) {
            shapes[same] = shapes[first];
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

/* Reads what leads to the current frame, and in the same go where the rest of the stack should be. */
static bool read_current_frame(enum memory_access access, python_thread *thread, stack_hints *hints, uintptr_t *frame)
{
    memory_range ranges[4];
    uintptr_t holder = 0;
    size_t count = 0;
    bool direct = layout.cframe_frame == FRAMES_NONE;
    bool guessed = !direct && thread->guess;
    *frame = 0;
    drop_windows();
    ranges[count++] = (memory_range){thread->state + layout.thread_frame, &holder, sizeof holder};
    if (guessed) {
        ranges[count++] = (memory_range){thread->guess + layout.cframe_frame, frame, sizeof *frame};
    }
    size_t window_at = count;
    if (hints->high && (guessed || direct) && !memory_lasting_from(hints->low)) {
        ranges[count++] = (memory_range){hints->low, windows[0].bytes, hints->high - hints->low};
    }
    ranges[count++] = (memory_range){frames_main_interpreter() + layout.interp_made, &thread->made, sizeof thread->made};
    size_t got = memory_read_ranges(access, ranges, count);
    if (got > window_at && count - window_at == 2) {
        windows[0].low = hints->low;
        windows[0].high = hints->high;
        oldest_window = 1;
    }
    if (got < count) {
        hints->high = 0;
    }
    if (got == 0) {
        return false;
    }
    if (direct) {
        *frame = holder;
        return true;
    }
    if (guessed && got > 1 && holder == thread->guess) {
        return true;
    }
    /* Frames that were read before what leads to them are of no use. */
    drop_windows();
    thread->guess = holder;
    *frame = 0;
    return holder == 0 || memory_read(access, frame, holder + layout.cframe_frame, sizeof *frame);
}

bool frames_of_thread(enum memory_access access, python_thread *thread, frame_stack *stack, path_cache *cache)
{
    uintptr_t at;
    size_t seen;
    stack->count = 0;
    stack->cut = false;
    stack_hints *hints = &cache->hints;
    if (!read_current_frame(access, thread, hints, &at) ||
        !(layout.frame_is_object ? read_object_chain(access, at, &seen) : read_chain(access, at, &seen, hints))) {
        return false;
    }
    unroll_raws(seen);
    size_t kept = seen < FRAMES_MAX ? seen : FRAMES_MAX;
    size_t same = 0;
    if (cache->generation == recorder_generation() && seen <= FRAMES_MAX && ++cache->trusted < TRUSTED_STACKS) {
        same = unchanged(cache, kept);
    } else {
        cache->trusted = 0;
        frames_doubt(hints);
    }
    if (!read_codes(access, kept - same, hints)) {
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < kept; i++) {
        frame_reference *frame = &stack->frames[count];
        bool damaged;
        if (i >= kept - same) {
            *frame = cache->steps[kept - 1 - i].frame;
        } else if (instruction_of(&raws[i], &shapes[i], &frame->lasti, &damaged)) {
            frame->fingerprint = shapes[i].fingerprint;
        } else if (damaged) {
            frames_doubt(hints);
            return false;
        } else {
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

bool frames_fit(void)
{
    return layout.code_size <= FRAMES_CODE_SIZE && (!layout.frame_is_object || layout.frame_size <= FRAME_OBJECT_SIZE);
}

#endif /* SCALANA_FRAME_LAYOUT */
