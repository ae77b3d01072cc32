/* A call of MPI that is under way. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "handles/communicators.h"
#include "recorder/call_arguments.h"

enum { INIT = 17, FINALIZE = 18, COMM_CREATE = 19, SENDRECV = 22, PROBE = 23, TEST = 25, START = 26 };
enum { LOCK_SHARED = 1, LOCK_EXCLUSIVE = 2 }; /* tag of a lock in the record */

enum { WIN_POST = 31, WIN_WAIT = 34 };

/* One call under way. */
typedef struct {
    native_thread *thread;
    call_site *site; /* NULL where paths come from elsewhere */
    call_arguments call;
    uint32_t path;
    uint64_t enter_ns, cpu_ns, exit_ns, cpu_inside_ns;
    communicator *on;
    bool wildcard;      /* a receive whose sender or tag its completion tells */
    bool receives;
    int source, tag;    /* of a receive or probe, as the program gave them */
    uint64_t identity;  /* of a communicator, window or file to be made */
    uint64_t second_event; /* sendrecv: the send; mrecv: the receive that the probe began */
    int handles;        /* requests that a wait is for */
} call_state;

/* One call under way that is only counted. */
typedef struct {
    native_thread *thread;
    call_site *site;
    uint64_t enter_ns, cpu_ns, nbytes;
    uint64_t handle; /* of the request that a test is for */
} counted_call;
