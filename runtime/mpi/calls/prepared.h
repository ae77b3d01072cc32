/* Persistent requests: prepared once, started again and again. Also those for messages in parts. */
#pragma once

#include "calls/call.h"

enum prepared_kind { PREPARED_SEND, PREPARED_RECEIVE, PREPARED_COLLECTIVE };

void leave_prepared(call_state *s, MPI_Request request, MPI_Comm comm, int peer, int tag, uint64_t nbytes,
                    enum prepared_kind kind, int partitions);
/* Some partitions of a message are ready to be sent. */
void leave_ready(call_state *s, MPI_Request request, int count);
void leave_start(call_state *s, int count, const MPI_Request *requests);
