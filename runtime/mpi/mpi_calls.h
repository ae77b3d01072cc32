/* What the generated wrappers call before and after the library: which message, collective or request a call is. */
#ifndef SCALANA_MPI_CALLS_H
#define SCALANA_MPI_CALLS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent.h"

#define HANDLE(h) ((uint64_t)(uintptr_t)(h))

enum prepared_kind { PREPARED_SEND, PREPARED_RECEIVE, PREPARED_COLLECTIVE };

enum { NO_RECEIVE = -1 }; /* in place of a receive's tag */

typedef struct communicator communicator;

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

/* Begins a call that is to be recorded, or else leaves the wrapper by the library's own function. */
#define ENTER(s, real)                                                                                                \
    if (!enter_call(&(s), __builtin_return_address(0), __builtin_frame_address(0)))                                   \
    return real

/* Of MPI_Init: before it nothing may be asked of MPI, and nothing is recorded. */
#define ENTER_FIRST(s, real)                                                                                          \
    mpi_begins();                                                                                                     \
    ENTER(s, real)

/* One call under way that is only counted. */
typedef struct {
    native_thread *thread;
    call_site *site;
    uint64_t enter_ns, cpu_ns, nbytes;
    uint64_t handle; /* of the request that a test is for */
} counted_call;

/* Whether calls are thinned out, so that most are not written but counted. Where one of the functions below says so of
 * a call that is about to begin, its wrapper takes a short way: it calls the library, and then what ends such a call. */
#define MAY_ONLY_COUNT __builtin_expect(may_only_count && agent.rate->level, 0)
#define CALLER __builtin_return_address(0), __builtin_frame_address(0)

extern bool may_only_count;
extern agent_api agent;

bool counts_collective(counted_call *c, const void *return_address, const void *frame, uint32_t operation, MPI_Comm comm,
                       int root, uint64_t nbytes);
bool counts_message(counted_call *c, const void *return_address, const void *frame, uint32_t operation, MPI_Comm comm,
                    int peer, int tag, uint64_t nbytes, bool sends);
bool counts_sendrecv(counted_call *c, const void *return_address, const void *frame, MPI_Comm comm, int dest, int send_tag,
                     int source, int tag, uint64_t nbytes);
bool counts_wait(counted_call *c, const void *return_address, const void *frame, uint32_t operation, int count,
                 const MPI_Request *requests);
bool counts_test(counted_call *c, const void *return_address, const void *frame, uint32_t operation, MPI_Request request);
void leave_only_counted(const counted_call *c);
void leave_counted_post(const counted_call *c, int result, MPI_Request request, int receive_tag);
void leave_counted_test(const counted_call *c, int done);

void mpi_begins(void);
bool enter_call(call_state *s, const void *return_address, const void *frame);

void begin_plain(call_state *s, uint32_t operation, uint32_t group, int64_t peer);
void leave_plain(call_state *s);
void leave_counted(call_state *s);

void begin_init(call_state *s);
void leave_init(call_state *s);
void begin_finalize(call_state *s);
/* Of MPI without MPI_Init: the world is what the session calls so. Its group is given away. */
void leave_session_init(call_state *s, uint64_t session, MPI_Group world);
void begin_session_finalize(call_state *s, uint64_t session);
void begin_collective(call_state *s, uint32_t operation, MPI_Comm comm, int root, uint64_t nbytes);
void leave_collective(call_state *s);
void begin_creation(call_state *s, uint32_t operation, MPI_Comm comm);
void leave_creation(call_state *s, MPI_Comm made);
void leave_creation_apart(call_state *s, MPI_Comm made, int tag);
void leave_creation_post(call_state *s, int result, MPI_Request request, MPI_Comm *made);
void leave_handle(call_state *s, uint64_t handle);
void begin_on_handle(call_state *s, uint32_t operation, uint64_t handle, int target, uint64_t nbytes, bool collective);
void begin_lock(call_state *s, uint32_t operation, MPI_Win win, int target, bool exclusive);
void begin_epoch(call_state *s, uint32_t operation, MPI_Win win, MPI_Group group, bool exposure);
void begin_epoch_end(call_state *s, uint32_t operation, MPI_Win win, bool exposure);
void leave_epoch_test(call_state *s, int ended);
void communicator_gone(MPI_Comm comm);
void handle_gone(uint64_t handle);

void begin_message(call_state *s, uint32_t operation, MPI_Comm comm, int peer, int tag, uint64_t nbytes, bool sends);
void leave_send(call_state *s);
void leave_receive(call_state *s, const MPI_Status *status);
void leave_post(call_state *s, int result, MPI_Request request);
void leave_prepared(call_state *s, MPI_Request request, MPI_Comm comm, int peer, int tag, uint64_t nbytes,
                    enum prepared_kind kind, int partitions);
/* Some partitions of a message are ready to be sent. */
void leave_ready(call_state *s, MPI_Request request, int count);
void leave_start(call_state *s, int count, const MPI_Request *requests);
void begin_sendrecv(call_state *s, MPI_Comm comm, int dest, int send_tag, int source, int tag, uint64_t nbytes);
void leave_sendrecv(call_state *s, const MPI_Status *status);
void leave_isendrecv(call_state *s, int result, MPI_Request request);

void begin_probe(call_state *s, MPI_Comm comm, int source, int tag, bool matched);
void leave_probe(call_state *s, const MPI_Status *status);
void leave_mprobe(call_state *s, const MPI_Status *status, MPI_Message message);
void leave_improbe(call_state *s, int found, const MPI_Status *status, MPI_Message message);
void begin_mrecv(call_state *s, MPI_Message message, uint64_t nbytes);
void leave_mrecv(call_state *s);
void leave_imrecv(call_state *s, int result, MPI_Request request);

void begin_wait(call_state *s, uint32_t operation, int count, const MPI_Request *requests);
MPI_Status *own_statuses(call_state *s, int count, MPI_Status *statuses);
void leave_wait(call_state *s, int count, const int *indices, const MPI_Status *statuses);
void leave_test(call_state *s, int count, const int *indices, const MPI_Status *statuses);

void request_freed(MPI_Request request, const void *return_address, const void *frame);
void request_cancelled(MPI_Request request);
void flush_record(void);

/* What the handle of a datatype stands for may change. */
void datatype_gone(void);

uint32_t group_of(MPI_Comm comm);
bool is_at_root(MPI_Comm comm, int root);
/* Sizes of datatypes that were asked for of late. */
#define RECENT_SIZE_BITS 3
typedef struct {
    uint64_t changes; /* of what handles stand for, when these were noted */
    struct {
        uint64_t handle;
        uint64_t bytes;
    } recent[1u << RECENT_SIZE_BITS];
} recent_sizes;

extern __thread recent_sizes sizes __attribute__((tls_model("initial-exec")));
extern _Atomic uint64_t type_changes;

uint64_t size_asked(MPI_Datatype type);

static inline unsigned size_place(MPI_Datatype type)
{
    return (unsigned)(HANDLE(type) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - RECENT_SIZE_BITS));
}

/* Bytes of so many of a datatype. */
static inline uint64_t volume(int64_t count, MPI_Datatype type)
{
    if (count <= 0 || type == MPI_DATATYPE_NULL) {
        return 0;
    }
    unsigned place = size_place(type);
    bool known = sizes.recent[place].handle == HANDLE(type) &&
                 sizes.changes == __atomic_load_n(&type_changes, __ATOMIC_RELAXED);
    return (uint64_t)count * (known ? sizes.recent[place].bytes : size_asked(type));
}

uint64_t volumes(const int *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm);
uint64_t large_volumes(const MPI_Count *counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm);

extern const agent_wrapper generated_wrappers[];

#endif
