/* Communicators, windows and files: who is in them, and a name that is the same on all members without asking. */
#pragma once

#include "handles/library.h"

typedef struct communicator communicator;

/* What every call needs comes first. */
struct communicator {
    _Alignas(LINE_BYTES) uint64_t collectives; /* so far */
    uint64_t name_hash;
    uint64_t generation; /* of the recording that `group` belongs to */
    uint32_t group;      /* id in the record */
    int size;            /* of the group that peers are in */
    int32_t *world;      /* world rank of each peer */
    int32_t me;          /* this rank in the world */
    int my_rank;         /* in the local group */
    uint64_t handle;
    uint32_t kind;
    uint32_t members, my_place;
    uint32_t *member_ranks; /* world ranks of all members */
    uint64_t identity;      /* the same on all members */
    uint64_t children;      /* made of it so far */
    char name[32];
    uint32_t neighbours;    /* of this rank, where there is a topology: from whom it receives */
    int32_t *neighbour_ranks; /* their world ranks */
    uint32_t epoch[2];      /* of a window: id of whom the latest access and exposure epoch is with */
    uint64_t epochs[2];     /* begun so far */
    uint64_t accesses;      /* other calls on a window, so far */
    uint32_t holders;       /* the table, and what is pending on it: it may outlive its handle */
    communicator *next;
};

enum handle_kind { HANDLE_COMM, HANDLE_OTHER };

/* Communicators that the calling thread has used of late, by a hash of their handles. */
#define RECENT_COMMUNICATORS 8u
typedef struct {
    uint64_t changes; /* of all that are known, when these were noted */
    struct {
        uint64_t handle;
        communicator *is;
    } recent[RECENT_COMMUNICATORS];
} recent_communicators;

extern __thread recent_communicators recent_ones __attribute__((tls_model("initial-exec")));
extern _Atomic uint64_t communicator_changes; /* counts those that went away */

static inline unsigned recent_place(uint64_t handle)
{
    return (unsigned)(handle * UINT64_C(0x9E3779B97F4A7C15) >> 61) & (RECENT_COMMUNICATORS - 1);
}

/* As below, of one that the thread has not used of late. */
communicator *communicator_looked_up(MPI_Comm comm);

/* One that the thread has used of late, or NULL. */
static inline communicator *recent_communicator(MPI_Comm comm)
{
    unsigned place = recent_place(HANDLE(comm));
    bool known = recent_ones.recent[place].handle == HANDLE(comm) &&
                 recent_ones.changes == __atomic_load_n(&communicator_changes, __ATOMIC_ACQUIRE);
    return known ? recent_ones.recent[place].is : NULL;
}

/* Of a communicator; made known on first sight. NULL for MPI_COMM_NULL, or when memory is short. */
static inline communicator *communicator_of(MPI_Comm comm)
{
    communicator *c = recent_communicator(comm);
    return c ? c : communicator_looked_up(comm);
}

/* Of a window or file. NULL if it was not seen being made. */
communicator *handle_communicator(uint64_t handle);
/* Makes a new communicator known, by what it was made of. */
void communicator_made(MPI_Comm comm, uint64_t identity);
void handle_made(uint64_t handle, const communicator *parent, uint64_t identity);
void communicator_gone(MPI_Comm comm);
void handle_gone(uint64_t handle);
/* Keeps a communicator, or NULL, until it is released: programs may free one while a request on it is pending. */
communicator *communicator_held(communicator *c);
void communicator_released(communicator *c);
/* Hash that names what is made of a communicator next. */
uint64_t next_child(communicator *parent);
/* The communicator's id in the record, written anew. */
uint32_t name_group(communicator *c);

static inline int64_t world_rank(const communicator *c, int peer)
{
    return c && peer >= 0 && peer < c->size ? c->world[peer] : -1;
}

/* Id in the record; 0 for none. */
static inline uint32_t recorded_group(communicator *c)
{
    return c && c->group && c->generation == generation_now() ? c->group : c ? name_group(c) : 0;
}

/* Whom an epoch of a window is with: recorded as a group by the name of the window, a slash and a hash of the members. */
uint32_t recorded_partners(communicator *window, MPI_Group group);

/* Id in the record, of a handle. */
uint32_t group_of(MPI_Comm comm);
bool is_at_root(MPI_Comm comm, int root);
