/* Operations of torch that were posted: by what each will be known when it is waited for, and what came of it.
 *
 * A thread may also be blocked inside C++ on communication that it launched itself: DDP's reducer posts its buckets
 * during backward and waits for them when the graph is done; some helpers of torch.distributed (_broadcast_coalesced)
 * post and wait within one call. No wait of these can be seen, but everything to reconstruct them can be had: the
 * thread waits for its works in the order of their posts, each completion is seen by a callback together with the
 * thread's CPU clock, and the engine's final callbacks tell when the graph was done and when the reducer was through.
 * The posts of one such stretch are collected in a scope. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "torch/groups.h"

typedef struct {
    uint64_t event; /* 0: none */
    const torch_group *group;
    uint64_t seq, nbytes, scope;
    int64_t peer, tag;
    const void *work;
    pid_t tid;
    uint32_t group_id, operation;
    bool any_source, waited; /* waited: somebody was seen to wait for it */
    /* Of posts in a scope, by the two clocks of their thread; done_ns is 0 until the operation is complete. */
    uint64_t enter_ns, exit_ns, cpu_at_exit_ns, done_ns, cpu_at_done_ns;
} torch_post;

/* A wait that was reconstructed: the thread was blocked on posts[post] from enter_ns to exit_ns. */
typedef struct {
    size_t post;
    uint64_t enter_ns, exit_ns, cpu_enter_ns;
} torch_blocked;

/* When a thread was blocked on each of `posts`, in the order of posting, between `begin` and `end`; at most one wait per
 * post. Returns how many. See posts.c. */
size_t torch_reconstruct_waits(const torch_post *posts, size_t count, uint64_t begin_ns, uint64_t cpu_at_begin_ns,
                               uint64_t end_ns, uint64_t cpu_at_end_ns, torch_blocked *waits);

/* What tells of a post. */
enum torch_token { TOKEN_WORK, TOKEN_STORAGE, TOKENS };

/* The calling thread has entered a post. */
void torch_post_entered(const torch_post *post);
/* The operator has returned `work`, at these clocks of the calling thread; whether its future is worth asking for. */
bool torch_post_returned(uint64_t event, const void *work, uint64_t now_ns, uint64_t cpu_ns);
/* Who waits for this token waits for the post. Overrides what the address stood for before. */
void torch_post_known_by(enum torch_token kind, const void *token, uint64_t event);
/* The works of this operation have no future. */
void torch_post_without_future(uint64_t event);
void torch_post_completed(uint64_t event);
/* Event of the post that is known by a token, 0 if there is none; `take`: and it is no longer. */
uint64_t torch_post_of(enum torch_token kind, const void *token, bool take);
/* Enters a wait of the calling thread that completes a post. Returns its event, 0 if it is not recorded. */
uint64_t torch_enter_wait(uint64_t event, bool unlocked);
bool torch_post_is_from_anybody(uint64_t event);
/* The receive from anybody turned out to be of this member of its group. */
void torch_post_found_source(uint64_t event, int64_t member);

/* The scope of the backward pass that the calling thread is in, if it has none yet: its id; else 0. `in_callback`: the
 * graph is done already, and the thread runs a final callback. */
uint64_t torch_open_scope(int64_t graph_task, bool in_callback);
/* The calling thread has nothing to do from here on but to wait for its posts, if it has not been so before. */
void torch_begin_scope(uint64_t id);
/* The waits are over: writes those that were not seen. */
void torch_close_scope(uint64_t id, bool unlocked);
void torch_drop_scope(uint64_t id);
/* A call into C++ that posts and waits, and its end. `outer` is what the former returned. */
uint64_t torch_enter_cxx(void);
void torch_leave_cxx(uint64_t outer);
