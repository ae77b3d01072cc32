/* The short way of calls that are only counted: most of them where there are very many.
 *
 * A call takes it that comes from where one came from at this point before, and goes to a communicator or channel that
 * one went to before, so that everything about it is known. What does not fit in the least takes the long way, which
 * looks everything up and notes it. Both do the same sums. */
#pragma once

#include "calls/call.h"
#include "handles/library.h"

/* Whether calls are thinned out, so that most are not written but counted. Where one of the functions below says so of
 * a call that is about to begin, its wrapper takes a short way: it calls the library, and then what ends such a call. */
#define MAY_ONLY_COUNT __builtin_expect(may_only_count && agent.rate->level, 0)
#define CALLER __builtin_return_address(0), __builtin_frame_address(0)

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
