/* What the generated wrappers call before and after the library: which message, collective or request a call is. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/api.h"
#include "calls/beginning.h"
#include "calls/calls.h"
#include "calls/completion.h"
#include "calls/counting.h"
#include "calls/prepared.h"
#include "calls/windows.h"
#include "handles/communicators.h"
#include "handles/datatypes.h"
#include "handles/library.h"
#include "handles/world.h"

/* Begins a call that is to be recorded, or else leaves the wrapper by the library's own function. */
#define ENTER(s, real)                                                                                                \
    if (!enter_call(&(s), __builtin_return_address(0), __builtin_frame_address(0)))                                   \
    return real

/* Of MPI_Init: before it nothing may be asked of MPI, and nothing is recorded. */
#define ENTER_FIRST(s, real)                                                                                          \
    mpi_begins();                                                                                                     \
    ENTER(s, real)

extern const agent_wrapper generated_wrappers[];
