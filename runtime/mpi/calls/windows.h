/* Calls on windows and files. */
#pragma once

#include "calls/call.h"

void begin_on_handle(call_state *s, uint32_t operation, uint64_t handle, int target, uint64_t nbytes, bool collective);
void begin_lock(call_state *s, uint32_t operation, MPI_Win win, int target, bool exclusive);
void begin_epoch(call_state *s, uint32_t operation, MPI_Win win, MPI_Group group, bool exposure);
void begin_epoch_end(call_state *s, uint32_t operation, MPI_Win win, bool exposure);
void leave_epoch_test(call_state *s, int ended);
