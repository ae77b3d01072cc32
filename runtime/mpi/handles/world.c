#include "handles/world.h"

#include "handles/library.h"

static bool begun;

/* Sessions that have begun, and all processes of the job, which they call their world. Only of programs that have no
 * MPI_COMM_WORLD, as they never call MPI_Init. */
#define SESSIONS 16
static struct {
    uint64_t session; /* 0: none */
    MPI_Group world;
} sessions[SESSIONS];

void mpi_begins(void)
{
    begun = true;
}

bool mpi_is_initialized(void)
{
    int flag = 0;
    return PMPI_Initialized(&flag) == MPI_SUCCESS && flag;
}

COLD bool mpi_has_begun(void)
{
    if (!begun && mpi_is_initialized()) {
        begun = true;
    }
    return begun;
}

bool world_group(MPI_Group *group)
{
    for (int i = 0; i < SESSIONS; i++) {
        if (sessions[i].session) {
            *group = sessions[i].world;
            return false;
        }
    }
    *group = MPI_GROUP_EMPTY;
    return mpi_is_initialized() && PMPI_Comm_group(MPI_COMM_WORLD, group) == MPI_SUCCESS;
}

bool world_take(uint64_t session, MPI_Group world)
{
    for (int i = 0; i < SESSIONS && !mpi_is_initialized(); i++) {
        if (sessions[i].session == 0) {
            sessions[i].world = world;
            sessions[i].session = session;
            return true;
        }
    }
    return false;
}

void world_drop(uint64_t session)
{
    for (int i = 0; i < SESSIONS; i++) {
        if (sessions[i].session == session) {
            sessions[i].session = 0;
            PMPI_Group_free(&sessions[i].world);
        }
    }
}
