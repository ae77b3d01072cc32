#define PY_SSIZE_T_CLEAN
#include "torch/posts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clocks.h"
#include "frames/frames.h"
#include "record/kinds.h"
#include "record/writer.h"
#include "recorder/call_arguments.h"
#include "recorder/calls.h"
#include "recorder/lock.h"
#include "recorder/state.h"
#include "threads/notes.h"

/* ---- posts, by their events ---- */

#define KEPT_POSTS 16384u /* power of two: the oldest go when more pile up */
#define SCOPES 64u

typedef struct {
    uint64_t id;
    pid_t tid;
    uint64_t begin_ns, cpu_at_begin_ns; /* when waits can begin, 0 while that has not been seen */
    uint64_t *events;
    size_t count, capacity;
} scope;

typedef struct {
    const void *token; /* NULL: free */
    uint64_t event;
} known_token;

typedef struct {
    known_token *slots;
    size_t size, used;
} token_table;

/* Under the recorder's lock. */
static torch_post *ring;
static token_table tables[TOKENS];
static scope scopes[SCOPES];
static uint64_t latest_scope, own_generation;

/* What belongs to an earlier record is void. False when memory is short. */
static bool be_current_locked(void)
{
    uint64_t generation = recorder_generation();
    if (ring == NULL) {
        ring = calloc(KEPT_POSTS, sizeof *ring);
    } else if (generation != own_generation) {
        memset(ring, 0, KEPT_POSTS * sizeof *ring);
        for (size_t i = 0; i < TOKENS; i++) {
            free(tables[i].slots);
            tables[i] = (token_table){0};
        }
        for (size_t i = 0; i < SCOPES; i++) {
            free(scopes[i].events);
            scopes[i] = (scope){0};
        }
    }
    own_generation = generation;
    return ring != NULL;
}

static torch_post *slot_of_event(uint64_t event)
{
    return &ring[(event >> 1) & (KEPT_POSTS - 1)];
}

static torch_post *post_at_locked(uint64_t event)
{
    if (event == 0 || !be_current_locked()) {
        return NULL;
    }
    torch_post *post = slot_of_event(event);
    return post->event == event ? post : NULL;
}

/* ---- tokens ---- */

static size_t home_of(const token_table *table, const void *token)
{
    return (size_t)((uint64_t)((uintptr_t)token >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (table->size - 1);
}

static size_t place_of(const token_table *table, const void *token)
{
    size_t at = home_of(table, token);
    while (table->slots[at].token && table->slots[at].token != token) {
        at = (at + 1) & (table->size - 1);
    }
    return at;
}

/* Tokens of posts that are no longer kept go; the table grows if that does not make room. */
static bool make_room_locked(token_table *table)
{
    size_t alive = 0;
    for (size_t i = 0; i < table->size; i++) {
        alive += table->slots[i].token && slot_of_event(table->slots[i].event)->event == table->slots[i].event;
    }
    size_t size = table->size ? table->size : 64;
    while (size < alive * 4 + 1) {
        size *= 2;
    }
    token_table fresh = {calloc(size, sizeof *fresh.slots), size, 0};
    if (fresh.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < table->size; i++) {
        const known_token *row = &table->slots[i];
        if (row->token && slot_of_event(row->event)->event == row->event) {
            fresh.slots[place_of(&fresh, row->token)] = *row;
            fresh.used++;
        }
    }
    free(table->slots);
    *table = fresh;
    return true;
}

static void put_locked(token_table *table, const void *token, uint64_t event)
{
    if (token == NULL || (table->used * 2 >= table->size && !make_room_locked(table))) {
        return;
    }
    known_token *row = &table->slots[place_of(table, token)];
    table->used += row->token == NULL;
    *row = (known_token){token, event};
}

static uint64_t find_locked(const token_table *table, const void *token)
{
    return table->used && token ? table->slots[place_of(table, token)].event : 0;
}

/* Later rows of the run move up, so that no search ends early. */
static void remove_locked(token_table *table, const void *token)
{
    size_t hole = place_of(table, token);
    size_t at = hole;
    while (table->slots[at = (at + 1) & (table->size - 1)].token) {
        size_t home = home_of(table, table->slots[at].token);
        if (((at - home) & (table->size - 1)) >= ((at - hole) & (table->size - 1))) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    }
    table->slots[hole] = (known_token){0};
    table->used--;
}

static void remove_if_locked(token_table *table, const void *token, uint64_t event)
{
    if (event && find_locked(table, token) == event) {
        remove_locked(table, token);
    }
}

void torch_post_known_by(enum torch_token kind, const void *token, uint64_t event)
{
    recorder_lock();
    torch_post *post = post_at_locked(event);
    if (post) {
        put_locked(&tables[kind], token, event);
    }
    recorder_unlock();
}

uint64_t torch_post_of(enum torch_token kind, const void *token, bool take)
{
    recorder_lock();
    uint64_t event = be_current_locked() ? find_locked(&tables[kind], token) : 0;
    torch_post *post = event ? post_at_locked(event) : NULL;
    if (post && take) {
        remove_locked(&tables[kind], token);
        remove_if_locked(&tables[TOKEN_WORK], post->work, event);
    }
    recorder_unlock();
    return post ? event : 0;
}

/* ---- a post's life ---- */

static scope *scope_at_locked(uint64_t id)
{
    scope *found = &scopes[id % SCOPES];
    return id && be_current_locked() && found->id == id ? found : NULL;
}

static void collect_locked(scope *into, uint64_t event)
{
    if (into->count == into->capacity) {
        size_t larger = into->capacity ? into->capacity * 2 : 16;
        uint64_t *events = realloc(into->events, larger * sizeof *events);
        if (events == NULL) {
            return;
        }
        into->events = events;
        into->capacity = larger;
    }
    into->events[into->count++] = event;
}

void torch_post_entered(const torch_post *post)
{
    recorder_lock();
    if (be_current_locked()) {
        *slot_of_event(post->event) = *post;
        scope *within = scope_at_locked(post->scope);
        if (within) {
            collect_locked(within, post->event);
        }
    }
    recorder_unlock();
}

bool torch_post_returned(uint64_t event, const void *work, uint64_t now_ns, uint64_t cpu_ns)
{
    recorder_lock();
    torch_post *post = post_at_locked(event);
    bool ask = false;
    if (post) {
        post->work = work;
        put_locked(&tables[TOKEN_WORK], work, event);
        post->exit_ns = now_ns;
        post->cpu_at_exit_ns = cpu_ns;
        ask = (post->group->without_future & torch_operation_bit(post->operation)) == 0;
    }
    recorder_unlock();
    return ask;
}

void torch_post_without_future(uint64_t event)
{
    recorder_lock();
    torch_post *post = post_at_locked(event);
    torch_group *group = post ? (torch_group *)post->group : NULL;
    if (group) {
        group->without_future |= torch_operation_bit(post->operation);
    }
    recorder_unlock();
}

/* The CPU clock of the thread that made a post. False when it has ended. */
static bool cpu_of_poster(const torch_post *post, uint64_t now_ns, uint64_t *cpu_ns)
{
    thread_notes *own = kept_notes();
    if (own && own->tid == post->tid) {
        *cpu_ns = own_cpu_near(own, now_ns);
        return true;
    }
    return clock_thread_cpu_ns(post->tid, cpu_ns);
}

void torch_post_completed(uint64_t event)
{
    uint64_t now = clock_wall_ns();
    recorder_lock();
    torch_post *post = recorder_is_on() ? post_at_locked(event) : NULL;
    if (post) {
        uint64_t cpu;
        if (!cpu_of_poster(post, now, &cpu)) {
            cpu = 0;
        } else {
            post->done_ns = now;
            post->cpu_at_done_ns = cpu;
        }
        if ((event & 1) == 0) {
            record_done(&rec.writer, event, now, cpu, -1);
        }
    }
    recorder_unlock();
}

bool torch_post_is_from_anybody(uint64_t event)
{
    recorder_lock();
    const torch_post *post = post_at_locked(event);
    bool anybody = post && post->any_source;
    recorder_unlock();
    return anybody;
}

void torch_post_found_source(uint64_t event, int64_t member)
{
    recorder_lock();
    const torch_post *post = post_at_locked(event);
    int64_t source = post ? torch_world_rank(post->group, member) : -1;
    recorder_unlock();
    recorder_done(event, source);
}

uint64_t torch_enter_wait(uint64_t event, bool unlocked)
{
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    torch_post copy = {0};
    recorder_lock();
    torch_post *post = own ? post_at_locked(event) : NULL;
    if (post) {
        post->waited = true;
        copy = *post;
    }
    recorder_unlock();
    if (copy.event == 0) {
        return 0;
    }
    const call_arguments call = {.operation = OPERATION_WAIT, .group = copy.group_id, .seq = copy.seq, .peer = copy.peer,
                                 .tag = copy.tag, .nbytes = copy.nbytes, .flags = EVENT_COMPLETION, .completes = event};
    uint32_t path = unlocked ? frames_path_of_self_unlocked(&own->cache) : frames_path_of_self(&own->cache);
    uint64_t now = clock_wall_ns();
    return recorder_begin(&call, own->tid, own->index, path, now, own_cpu_near(own, now));
}

/* ---- scopes ---- */

static uint64_t open_locked(pid_t tid)
{
    if (!be_current_locked()) {
        return 0;
    }
    scope *fresh = &scopes[++latest_scope % SCOPES];
    *fresh = (scope){.id = latest_scope, .tid = tid, .events = fresh->events, .capacity = fresh->capacity};
    return fresh->id;
}

static void begin_locked(uint64_t id, pid_t tid)
{
    scope *found = scope_at_locked(id);
    if (found && found->tid == tid && found->begin_ns == 0) {
        found->begin_ns = clock_wall_ns();
        found->cpu_at_begin_ns = clock_own_cpu_ns();
    }
}

uint64_t torch_open_scope(int64_t graph_task, bool in_callback)
{
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    uint64_t id = 0;
    if (own && !own->torch_call) {
        recorder_lock();
        if (own->graph_task != graph_task || scope_at_locked(own->backward) == NULL) {
            id = open_locked(own->tid);
            own->backward = id;
            own->graph_task = graph_task;
        }
        if (in_callback) { /* in the first step of a static graph, the reducer posts and waits there */
            begin_locked(own->backward, own->tid);
        }
        recorder_unlock();
    }
    return id;
}

void torch_begin_scope(uint64_t id)
{
    const thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own) {
        recorder_lock();
        begin_locked(id, own->tid);
        recorder_unlock();
    }
}

void torch_drop_scope(uint64_t id)
{
    recorder_lock();
    scope *found = scope_at_locked(id);
    if (found) {
        found->id = 0;
    }
    recorder_unlock();
}

/* Copies of the scope's posts, which are then forgotten; `which` gets what is known of the scope. NULL if there is none. */
static torch_post *take_posts_locked(uint64_t id, scope *which)
{
    scope *found = scope_at_locked(id);
    if (found == NULL) {
        return NULL;
    }
    *which = *found;
    which->count = 0;
    found->id = 0;
    torch_post *posts = calloc(found->count ? found->count : 1, sizeof *posts);
    for (size_t i = 0; i < found->count && posts; i++) {
        const torch_post *post = post_at_locked(found->events[i]);
        if (post && post->exit_ns) { /* not one that failed */
            posts[which->count++] = *post;
            if (!post->waited) {
                remove_if_locked(&tables[TOKEN_WORK], post->work, post->event);
            }
        }
    }
    return posts;
}

void torch_close_scope(uint64_t id, bool unlocked)
{
    uint64_t end = clock_wall_ns(), cpu_at_end = clock_own_cpu_ns();
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    scope of = {0};
    recorder_lock();
    torch_post *posts = take_posts_locked(id, &of);
    recorder_unlock();
    torch_blocked *waits = posts && own ? calloc(of.count ? of.count : 1, sizeof *waits) : NULL;
    size_t count = 0;
    /* Nothing is known if the end is seen by another thread than the posts. */
    if (waits && of.begin_ns && of.tid == own->tid) {
        count = torch_reconstruct_waits(posts, of.count, of.begin_ns, of.cpu_at_begin_ns, end, cpu_at_end, waits);
    }
    uint32_t path = 0;
    if (count) {
        path = unlocked ? frames_path_of_self_unlocked(&own->cache) : frames_path_of_self(&own->cache);
    }
    for (size_t i = 0; i < count; i++) {
        const torch_post *post = &posts[waits[i].post];
        const call_arguments call = {
            .operation = OPERATION_WAIT, .group = post->group_id, .seq = post->seq, .peer = post->peer, .tag = post->tag,
            .nbytes = post->nbytes, .flags = EVENT_COMPLETION | EVENT_FROM_CXX, .completes = post->event};
        recorder_event_at(&call, own->index, path, waits[i].enter_ns, waits[i].exit_ns, waits[i].cpu_enter_ns, 0);
    }
    free(waits);
    free(posts);
}

uint64_t torch_enter_cxx(void)
{
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    uint64_t outer = 0;
    if (own) {
        outer = own->torch_call;
        recorder_lock();
        own->torch_call = open_locked(own->tid);
        recorder_unlock();
        torch_begin_scope(own->torch_call);
    }
    return outer;
}

void torch_leave_cxx(uint64_t outer)
{
    thread_notes *own = recorder_is_on() ? own_notes() : NULL;
    if (own && own->torch_call) {
        torch_close_scope(own->torch_call, false);
        own->torch_call = outer;
    }
}

/* ---- waits inside C++ ---- */

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* A wait ends with the completion of its work. It begins when the wait before it has ended and the thread has nothing
 * else to do: the thread's CPU clock tells how much it still worked on since then, and it cannot have waited for a work
 * before the last post that it made while that work was under way. Waits do not overlap each other nor posts; a work
 * that was complete before its turn has none. */
size_t torch_reconstruct_waits(const torch_post *posts, size_t count, uint64_t begin_ns, uint64_t cpu_at_begin_ns,
                               uint64_t end_ns, uint64_t cpu_at_end_ns, torch_blocked *waits)
{
    uint64_t now = begin_ns, cpu = cpu_at_begin_ns;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t done = posts[i].done_ns, cpu_at_done = posts[i].cpu_at_done_ns;
        if (posts[i].waited) {
            continue;
        }
        if (done == 0 || done > end_ns) {
            /* Its callback has yet to run, though C++ went on; so it was complete by then. */
            done = end_ns;
            cpu_at_done = cpu_at_end_ns;
        }
        for (size_t k = 0; k < count; k++) {
            if (posts[k].enter_ns < done && posts[k].exit_ns > now) {
                now = posts[k].exit_ns;
                cpu = posts[k].cpu_at_exit_ns;
            }
        }
        if (done <= now) {
            continue;
        }
        uint64_t worked = above(cpu_at_done, cpu);
        worked = worked < done - now ? worked : done - now;
        if (worked < done - now) {
            waits[found++] = (torch_blocked){i, now + worked, done, cpu + worked};
        }
        now = done;
        cpu = cpu_at_done > cpu ? cpu_at_done : cpu;
    }
    return found;
}
