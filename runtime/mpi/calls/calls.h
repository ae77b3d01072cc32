/* What happens around every recorded call of MPI. */
#pragma once

#include "calls/call.h"
#include "handles/requests.h"

bool enter_call(call_state *s, const void *return_address, const void *frame);

void begin_plain(call_state *s, uint32_t operation, uint32_t group, int64_t peer);
void leave_plain(call_state *s);
void leave_counted(call_state *s);

void begin_collective(call_state *s, uint32_t operation, MPI_Comm comm, int root, uint64_t nbytes);
void leave_collective(call_state *s);
void begin_creation(call_state *s, uint32_t operation, MPI_Comm comm);
void leave_creation(call_state *s, MPI_Comm made);
void leave_creation_apart(call_state *s, MPI_Comm made, int tag);
void leave_creation_post(call_state *s, int result, MPI_Request request, MPI_Comm *made);
void leave_handle(call_state *s, uint64_t handle);
void begin_message(call_state *s, uint32_t operation, MPI_Comm comm, int peer, int tag, uint64_t nbytes, bool sends);
void leave_send(call_state *s);
void leave_receive(call_state *s, const MPI_Status *status);
void leave_post(call_state *s, int result, MPI_Request request);
void flush_record(void);

/* ---- for the other sources ---- */

void show(call_state *s);
void returned(call_state *s);
void leave(call_state *s);
void begin_on(call_state *s, uint32_t operation, communicator *on, int root, uint64_t nbytes);
void number_message(call_state *s, bool sends);
void settle(call_arguments *call, const communicator *on, const MPI_Status *status);
void resolve(call_arguments *call, const communicator *on, const MPI_Status *status);
void write_probe(const call_state *probe, uint64_t event);
void after_receive(const call_state *s, uint64_t event);
/* Adds a request to the table; of a receive from anybody with all that its event will need. */
request *remember(const call_state *s, uint64_t handle, uint64_t event);
