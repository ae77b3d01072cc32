/* Calls that begin or complete what others have begun: send-receives, probes, waits and tests. */
#pragma once

#include "calls/call.h"

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
