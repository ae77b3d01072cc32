/* Begin and end of MPI, and who this process is in it. */
#pragma once

#include "calls/call.h"

void begin_init(call_state *s);
void leave_init(call_state *s);
void begin_finalize(call_state *s);
/* Of MPI without MPI_Init: the world is what the session calls so. Its group is given away. */
void leave_session_init(call_state *s, uint64_t session, MPI_Group world);
void begin_session_finalize(call_state *s, uint64_t session);
