#include "calls/beginning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/calls.h"
#include "calls/writing.h"
#include "handles/communicators.h"
#include "handles/library.h"
#include "handles/requests.h"
#include "handles/world.h"
#include "record/kinds.h"

static void meta_number(const char *key, int value)
{
    char text[16];
    int size = snprintf(text, sizeof text, "%d", value);
    recorder()->meta(key, strlen(key), text, (size_t)size);
}

static void meta(const char *key, const char *value)
{
    recorder()->meta(key, strlen(key), value, strlen(value));
}

static void say_who_we_are(int rank, int size, bool is_child, const char *source)
{
    int length = 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    if (is_child) { /* its ranks are numbered from 0 again */
        static const char text[] = "started by MPI_Comm_spawn: not one of the job's ranks";
        recorder()->note(text, sizeof text - 1);
    }
    meta("role", is_child ? "child" : "rank");
    meta_number("rank", rank);
    meta_number("world_size", size);
    meta("rank_source", source);
    if (PMPI_Get_library_version(version, &length) == MPI_SUCCESS) {
        version[strcspn(version, "\n,")] = 0;
        meta("mpi", version);
    }
    recorder()->flush();
}

/* The world as the launcher tells it: of a process that never comes out of its first call nothing else is known. */
static struct {
    uint32_t group; /* in the record, 0: none */
    int rank, size;
} foreseen;

void begin_init(call_state *s)
{
    s->call.operation = INIT;
    s->call.flags = EVENT_BLOCKING;
    uint32_t *ranks = agent.launched_as(&foreseen.rank, &foreseen.size) ? malloc((size_t)foreseen.size * sizeof *ranks) : NULL;
    if (ranks) {
        for (int i = 0; i < foreseen.size; i++) {
            ranks[i] = (uint32_t)i;
        }
        foreseen.group = recorder()->group("world", strlen("world"), (uint32_t)foreseen.rank, (uint32_t)foreseen.size, ranks);
        s->call.group = foreseen.group;
        free(ranks);
    }
    show(s);
}

void leave_init(call_state *s)
{
    int level = MPI_THREAD_MULTIPLE, rank = 0, size = 1;
    MPI_Comm parent = MPI_COMM_NULL;
    returned(s);
    PMPI_Query_thread(&level);
    requests_shared(level == MPI_THREAD_MULTIPLE);
    may_only_count = level != MPI_THREAD_MULTIPLE;
    s->call.group = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Comm_get_parent(&parent);
    say_who_we_are(rank, size, parent != MPI_COMM_NULL, "MPI_Init");
    s->on = communicator_of(MPI_COMM_WORLD);
    if (s->on) {
        if (foreseen.group && foreseen.rank == rank && foreseen.size == size && parent == MPI_COMM_NULL) {
            s->on->group = foreseen.group;
            s->on->generation = s->thread->generation;
        }
        s->call.group = recorded_group(s->on);
        s->call.seq = s->on->collectives++;
    }
    write_event(s, &s->call);
    leave(s);
}

void begin_finalize(call_state *s)
{
    /* Launchers end all processes when one of them leaves with a code that is not 0: after this call there may be no
       time for what was not written yet. */
    recorder()->flush();
    begin_collective(s, FINALIZE, MPI_COMM_WORLD, -1, 0);
    may_only_count = false;
    mpi_is_over = true;
}

/* ---- sessions ---- */

void leave_session_init(call_state *s, uint64_t session, MPI_Group world)
{
    int rank = 0, size = 1;
    returned(s);
    requests_lock();
    bool kept = world != MPI_GROUP_NULL && world_take(session, world);
    requests_unlock();
    if (kept) {
        PMPI_Group_rank(world, &rank);
        PMPI_Group_size(world, &size);
        say_who_we_are(rank, size, false, "MPI_Session_init");
    } else if (world != MPI_GROUP_NULL) {
        PMPI_Group_free(&world);
    }
    s->call.operation = INIT;
    s->call.flags = EVENT_BLOCKING;
    write_event(s, &s->call);
    leave(s);
}

void begin_session_finalize(call_state *s, uint64_t session)
{
    begin_plain(s, FINALIZE, 0, -1);
    requests_lock();
    world_drop(session);
    requests_unlock();
}
