/* Requests and matched messages. */
#pragma once

#include "handles/communicators.h"
#include "recorder/call_arguments.h"

enum { NO_RECEIVE = -1 }; /* in place of a receive's tag */

/* By whom and when a call was made. */
typedef struct {
    uint32_t thread, path;
    uint64_t enter_ns, exit_ns, cpu_enter_ns, cpu_ns;
} call_times;

/* What all have is on one line. */
typedef struct request {
    _Alignas(LINE_BYTES) uint64_t handle;
    struct request *next;
    uint64_t event; /* of the post; 0 while it is not recorded */
    bool active;
    bool special; /* there is more to its completion than its event: what follows the next three is set */
    uint32_t group; /* of what is waited for */
    int64_t peer;
    uint64_t seq;
    int32_t tag; /* of a receive that was numbered when it was posted, else NO_RECEIVE */
    call_arguments call; /* the post; only of what is written when it is complete, or often */
    bool persistent, wildcard, sends, collective, cancelled;
    call_times times; /* of the post */
    communicator *on; /* held; NULL where its completion needs none */
    MPI_Comm *made; /* where a communicator will be when it is complete */
    uint64_t identity;
    int partitions, ready; /* of a partitioned message; 0 of any other */
    uint64_t second_event; /* of the other post that it stands for, a send; 0: there is none */
} request;

enum request_kind { REQUESTS, MESSAGES };

/* A request of this handle, made if there is none. The lock is the caller's, see requests_lock. */
request *request_add(enum request_kind kind, uint64_t handle);
/* Likewise one that is active, and what it is for; `event` is 0 while its post is not recorded. */
request *request_posted(uint64_t handle, uint64_t event, uint32_t group, int64_t peer, uint64_t seq, int32_t tag);
/* One will be added soon. */
void request_expected(void);
request *request_find(enum request_kind kind, uint64_t handle);
/* Clears what only special requests have. */
void request_is_special(request *r);
/* Whether there are special requests in the table. */
bool requests_any_special(void);
/* Removes an active request that is not special. Its event; 0 if there is none such. */
uint64_t request_complete_plain(uint64_t handle);
/* Likewise one whose post was not written; NULL if it is another. Good until the next request is added. */
const request *request_take_unwritten(uint64_t handle);
const request *request_find_unwritten(uint64_t handle);
/* A receive took no message: those that were posted later in its channel take the messages before theirs. */
void requests_move_up(const request *withdrawn);
/* Takes an active request that is not persistent out of the table, or NULL; to be given back by request_ended. The
 * library may give its handle to another one as soon as it is complete. */
request *request_taken(uint64_t handle);
void request_ended(request *r);
bool requests_are_shared(void);
void request_remove(enum request_kind kind, uint64_t handle);
/* Whether threads may call MPI at the same time; the lock is spared where they may not. */
void requests_shared(bool shared);
void requests_lock(void);
void requests_unlock(void);
