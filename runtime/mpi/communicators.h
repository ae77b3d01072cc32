/* Communicators, windows and files: who is in them, and a name that is the same on all members without asking. */
#ifndef SCALANA_COMMUNICATORS_H
#define SCALANA_COMMUNICATORS_H

#include "mpi_calls.h"

struct communicator {
    uint64_t handle;
    uint32_t kind;
    uint64_t identity;    /* the same on all members */
    uint32_t group;       /* id in the record */
    uint64_t generation;  /* of the recording that `group` belongs to */
    int size;             /* of the group that peers are in */
    int my_rank;          /* in the local group */
    int32_t *world;       /* world rank of each peer */
    uint32_t members, my_place;
    uint32_t *member_ranks; /* world ranks of all members */
    uint64_t collectives; /* so far */
    uint64_t children;    /* made of it so far */
    char name[32];
    uint64_t name_hash;
    uint32_t neighbours;    /* of this rank, where there is a topology: from whom it receives */
    int32_t *neighbour_ranks; /* their world ranks */
    uint32_t epoch[2];      /* of a window: id of whom the latest access and exposure epoch is with */
    uint64_t epochs[2];     /* begun so far */
    uint64_t accesses;      /* other calls on a window, so far */
    communicator *next;
};

enum handle_kind { HANDLE_COMM, HANDLE_OTHER };

void communicators_use(const agent_api *api);
/* Of a communicator; made known on first sight. NULL for MPI_COMM_NULL, or when memory is short. */
communicator *communicator_of(MPI_Comm comm);
/* Of a window or file. NULL if it was not seen being made. */
communicator *handle_communicator(uint64_t handle);
/* Makes a new communicator known, by what it was made of. */
void communicator_made(MPI_Comm comm, uint64_t identity);
void handle_made(uint64_t handle, const communicator *parent, uint64_t identity);
/* Hash that names what is made of a communicator next. */
uint64_t next_child(communicator *parent);
int64_t world_rank(const communicator *c, int peer);
uint32_t recorded_group(communicator *c);
/* Whom an epoch of a window is with: recorded as a group by the name of the window, a slash and a hash of the members. */
uint32_t recorded_partners(communicator *window, MPI_Group group);

#endif
