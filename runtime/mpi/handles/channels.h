/* The numbers of messages in their channels. */
#pragma once

#include "handles/communicators.h"

/* Number of the next message in a channel. */
uint64_t next_message(uint32_t group, int64_t peer, int64_t tag, bool sends);
/* The same, and notes the channel as a lane. */
uint64_t next_message_noted(communicator *on, uint32_t group, int peer, int tag, bool sends);
/* A receive that was numbered took no message: the channel has one less. The lock of requests is the caller's. */
void message_withdrawn(uint32_t group, int64_t peer, int64_t tag);
