/* Requests, matched messages, and the numbers of messages in their channels. */
#ifndef SCALANA_REQUESTS_H
#define SCALANA_REQUESTS_H

#include "communicators.h"

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
    call_arguments call; /* the post; only of what is written when it is complete, or often */
    bool persistent, wildcard, sends, collective, cancelled;
    call_times times; /* of the post */
    communicator *on;
    MPI_Comm *made; /* where a communicator will be when it is complete */
    uint64_t identity;
} request;

enum request_kind { REQUESTS, MESSAGES };

/* A request of this handle, made if there is none. The lock is the caller's, see requests_lock. */
request *request_add(enum request_kind kind, uint64_t handle);
request *request_find(enum request_kind kind, uint64_t handle);
/* Clears what only special requests have. */
void request_is_special(request *r);
/* Whether there are special requests in the table. */
bool requests_any_special(void);
/* Removes an active request that is not special. Its event; 0 if there is none such. */
uint64_t request_complete_plain(uint64_t handle);
void request_remove(enum request_kind kind, uint64_t handle);
/* Whether threads may call MPI at the same time; the lock is spared where they may not. */
void requests_shared(bool shared);
void requests_lock(void);
void requests_unlock(void);
/* Number of the next message in a channel. */
uint64_t next_message(uint32_t group, int64_t peer, int64_t tag, bool sends);

#endif
