/* What calls the profiling interface itself: libraries for Fortran (mpi_send_, MPI_SEND, mpi_send_f08_ and others), tools
 * that wrap MPI themselves, and programs that say `PMPI_Send`. */
#ifndef SCALANA_LAYERS_H
#define SCALANA_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/api.h"

#define MOST_TOOLS 16

/* One function of each tool. */
typedef struct {
    const void *functions[MOST_TOOLS];
    size_t count;
} mpi_tools;

void layers_add_tool(mpi_tools *tools, const void *function);
/* Leads calls of `PMPI_` from such modules to the wrappers. `library` is the path of MPI's own.
 *
 * Fortran libraries that call `MPI_Send` are wrapped like C programs; others go straight to the profiling interface, with
 * all arguments in their C form by then. A tool's own calls of `PMPI_` are what is left of the program's. */
void layers_redirect(const agent_wrapper *wrappers, const char *library, const mpi_tools *tools);

#endif
