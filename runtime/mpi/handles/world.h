/* Whether MPI has begun, and the group of all ranks. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* A first call is about to be made. */
void mpi_begins(void);
bool mpi_has_begun(void);
/* Whether MPI_Init has returned. */
bool mpi_is_initialized(void);
/* The group of all ranks. Whether the caller has to free it. */
bool world_group(MPI_Group *group);
/* Takes what a session calls its world for that of the process, which never calls MPI_Init: the group is given away if
 * that is done. The lock of requests is the caller's, here and below. */
bool world_take(uint64_t session, MPI_Group world);
/* The session ends. */
void world_drop(uint64_t session);
