#include "handles/communicators.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "handles/lanes.h"
#include "handles/world.h"

#define BUCKETS 1024u /* power of two */

static communicator *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
OFTEN _Atomic uint64_t communicator_changes;
__thread recent_communicators recent_ones __attribute__((tls_model("initial-exec")));

static communicator **place_of(uint64_t handle, uint32_t kind)
{
    communicator **at = &buckets[hash_finish(handle * 2 + kind) & (BUCKETS - 1)];
    while (*at && ((*at)->handle != handle || (*at)->kind != kind)) {
        at = &(*at)->next;
    }
    return at;
}

/* World ranks of a group's members. */
static int32_t *ranks_in_world(MPI_Group group, int size)
{
    MPI_Group world;
    int32_t *ranks = calloc((size_t)size + 1, sizeof *ranks);
    int *own = calloc((size_t)size + 1, sizeof *own), *there = calloc((size_t)size + 1, sizeof *there);
    if (ranks && own && there) {
        bool is_ours = world_group(&world);
        for (int i = 0; i < size; i++) {
            own[i] = i;
        }
        PMPI_Group_translate_ranks(group, size, own, world, there);
        if (is_ours) {
            PMPI_Group_free(&world);
        }
        for (int i = 0; i < size; i++) {
            ranks[i] = there[i] == MPI_UNDEFINED ? -1 : there[i];
        }
    }
    free(own);
    free(there);
    return ranks;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Fills in members and peers. */
static bool look_up_members(communicator *c, MPI_Comm comm)
{
    MPI_Group local, remote;
    int inter = 0, size = 0;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || PMPI_Comm_group(comm, &local) != MPI_SUCCESS) {
        return false;
    }
    PMPI_Group_size(local, &size);
    PMPI_Comm_rank(comm, &c->my_rank);
    int32_t *own = ranks_in_world(local, size);
    PMPI_Group_free(&local);
    if (own == NULL) {
        return false;
    }
    c->world = own;
    c->size = size;
    int others = 0;
    int32_t *there = NULL;
    if (inter && PMPI_Comm_remote_group(comm, &remote) == MPI_SUCCESS) {
        PMPI_Group_size(remote, &others);
        there = ranks_in_world(remote, others);
        PMPI_Group_free(&remote);
        if (there) {
            c->world = there;
            c->size = others;
        }
    }
    c->members = (uint32_t)(size + others);
    c->member_ranks = calloc((size_t)c->members + 1, sizeof *c->member_ranks);
    if (c->member_ranks == NULL) {
        return false;
    }
    int32_t me = c->me = own[c->my_rank];
    for (int i = 0; i < size; i++) {
        c->member_ranks[i] = own[i] < 0 ? 0 : (uint32_t)own[i];
    }
    for (int i = 0; there && i < others; i++) {
        c->member_ranks[size + i] = there[i] < 0 ? 0 : (uint32_t)there[i];
    }
    c->my_place = (uint32_t)c->my_rank;
    if (inter) { /* both sides name the members in one order */
        qsort(c->member_ranks, c->members, sizeof *c->member_ranks, by_rank);
        for (uint32_t i = 0; i < c->members; i++) {
            c->my_place = (int64_t)c->member_ranks[i] == me ? i : c->my_place;
        }
        free(own);
    }
    return true;
}

static int at_least_0(int n)
{
    return n > 0 ? n : 0;
}

/* The neighbours in a Cartesian grid, in the order of the standard: ranks go row by row. How many. (The library is not
 * asked for them: some say of what was made of a grid that it is one too, and then stumble over its missing shape.) */
static int cartesian_neighbours(const communicator *c, MPI_Comm comm, int dimensions, int *ranks)
{
    int *shape = calloc(3 * (size_t)dimensions + 1, sizeof *shape), *cyclic = shape + dimensions, *at = cyclic + dimensions;
    int count = 0, stride = 1;
    if (shape == NULL || PMPI_Cart_get(comm, dimensions, shape, cyclic, at) != MPI_SUCCESS) {
        free(shape);
        return 0;
    }
    for (int d = dimensions - 1; d >= 0; d--) {
        for (int step = -1; step <= 1; step += 2) {
            int there = at[d] + step;
            bool outside = there < 0 || there >= shape[d];
            there = shape[d] > 0 ? (there + shape[d]) % shape[d] : 0;
            int rank = c->my_rank + (there - at[d]) * stride;
            ranks[2 * d + (step > 0)] = outside && !cyclic[d] ? MPI_PROC_NULL : rank;
        }
        stride *= shape[d];
    }
    count = stride == c->size ? 2 * dimensions : 0;
    free(shape);
    return count;
}

/* Fills in from whom this rank receives in a neighbourhood collective. */
static void look_up_neighbours(communicator *c, MPI_Comm comm)
{
    int kind = MPI_UNDEFINED, count = 0, others = 0, weighted = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, &count);
        count *= 2;
    } else if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors_count(comm, c->my_rank, &count);
    } else if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &count, &others, &weighted);
    } else {
        return;
    }
    int *ranks = calloc((size_t)at_least_0(count) + (size_t)at_least_0(others) + 1, sizeof *ranks);
    c->neighbour_ranks = calloc((size_t)at_least_0(count) + 1, sizeof *c->neighbour_ranks);
    if (ranks == NULL || c->neighbour_ranks == NULL) {
        free(ranks);
        return;
    }
    if (kind == MPI_CART) {
        count = cartesian_neighbours(c, comm, count / 2, ranks);
    } else if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors(comm, c->my_rank, count, ranks);
    } else {
        PMPI_Dist_graph_neighbors(comm, count, ranks, MPI_UNWEIGHTED, others, ranks + at_least_0(count), MPI_UNWEIGHTED);
    }
    for (int i = 0; i < count; i++) {
        int64_t rank = world_rank(c, ranks[i]);
        if (rank >= 0) {
            c->neighbour_ranks[c->neighbours++] = (int32_t)rank;
        }
    }
    free(ranks);
    if (kind == MPI_CART && count == 0) { /* no grid, or one of a single rank without directions */
        free(c->neighbour_ranks);
        c->neighbour_ranks = NULL;
    }
}

static void name_it(communicator *c, MPI_Comm comm, uint64_t identity)
{
    uint64_t hash = hash_word(HASH_SEED, identity);
    for (uint32_t i = 0; i < c->members; i++) {
        hash = hash_word(hash, c->member_ranks[i]);
    }
    c->identity = hash_finish(hash);
    if (comm == MPI_COMM_WORLD) {
        strcpy(c->name, "world");
    } else {
        snprintf(c->name, sizeof c->name, "comm:%016llx", (unsigned long long)c->identity);
    }
    c->name_hash = hash_bytes(HASH_SEED, c->name, strlen(c->name));
}

static communicator *add_locked(communicator **at, uint64_t handle, uint32_t kind)
{
    communicator *c = aligned_alloc(_Alignof(communicator), sizeof *c);
    if (c) {
        memset(c, 0, sizeof *c);
        c->handle = handle;
        c->kind = kind;
        c->holders = 1;
        c->next = *at;
        *at = c;
    }
    return c;
}

communicator *communicator_held(communicator *c)
{
    if (c) {
        __atomic_fetch_add(&c->holders, 1, __ATOMIC_RELAXED);
    }
    return c;
}

static void forget_members(communicator *c)
{
    free(c->world);
    free(c->member_ranks);
    free(c->neighbour_ranks);
}

void communicator_released(communicator *c)
{
    if (c && __atomic_sub_fetch(&c->holders, 1, __ATOMIC_ACQ_REL) == 0) {
        forget_members(c);
        free(c);
    }
}

static void remove_locked(communicator **at)
{
    communicator *gone = *at;
    if (gone) {
        *at = gone->next;
        communicator_changes++;
        lanes_forget();
        communicator_released(gone);
    }
}

/* Makes a communicator known; one of its handle that is known stays if `unless_known`, or else was freed unseen. */
static communicator *make(MPI_Comm comm, uint64_t identity, bool unless_known)
{
    communicator made = {0};
    if (!look_up_members(&made, comm)) {
        return NULL;
    }
    look_up_neighbours(&made, comm);
    pthread_mutex_lock(&lock);
    communicator **at = place_of(HANDLE(comm), HANDLE_COMM);
    communicator *known = unless_known ? *at : NULL; /* another thread may have been faster */
    if (known == NULL) {
        remove_locked(at);
        at = place_of(HANDLE(comm), HANDLE_COMM);
    }
    communicator *c = known ? NULL : add_locked(at, HANDLE(comm), HANDLE_COMM);
    if (c) {
        made.handle = c->handle;
        made.kind = c->kind;
        made.holders = c->holders;
        made.next = c->next;
        *c = made;
        name_it(c, comm, identity);
    } else {
        forget_members(&made);
    }
    pthread_mutex_unlock(&lock);
    return known ? known : c;
}

communicator *communicator_looked_up(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    uint64_t changes = communicator_changes;
    communicator *c = *place_of(HANDLE(comm), HANDLE_COMM);
    pthread_mutex_unlock(&lock);
    if (c == NULL) {
        c = make(comm, 0, true);
    }
    if (recent_ones.changes != changes) {
        memset(&recent_ones, 0, sizeof recent_ones);
        recent_ones.changes = changes;
    }
    recent_ones.recent[recent_place(HANDLE(comm))].handle = HANDLE(comm);
    recent_ones.recent[recent_place(HANDLE(comm))].is = c;
    return c;
}

void communicator_made(MPI_Comm comm, uint64_t identity)
{
    if (comm != MPI_COMM_NULL) {
        make(comm, identity, false);
    }
}

communicator *handle_communicator(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    communicator *c = *place_of(handle, HANDLE_OTHER);
    pthread_mutex_unlock(&lock);
    return c;
}

void handle_made(uint64_t handle, const communicator *parent, uint64_t identity)
{
    if (handle == 0 || parent == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    remove_locked(place_of(handle, HANDLE_OTHER));
    communicator *c = add_locked(place_of(handle, HANDLE_OTHER), handle, HANDLE_OTHER);
    if (c) {
        c->size = parent->size;
        c->my_rank = parent->my_rank;
        c->me = parent->me;
        c->members = parent->members;
        c->my_place = parent->my_place;
        c->world = calloc((size_t)c->size + 1, sizeof *c->world);
        c->member_ranks = calloc((size_t)c->members + 1, sizeof *c->member_ranks);
        if (c->world && c->member_ranks) {
            memcpy(c->world, parent->world, (size_t)c->size * sizeof *c->world);
            memcpy(c->member_ranks, parent->member_ranks, c->members * sizeof *c->member_ranks);
            name_it(c, MPI_COMM_NULL, identity);
        } else {
            remove_locked(place_of(handle, HANDLE_OTHER));
        }
    }
    pthread_mutex_unlock(&lock);
}

void communicator_gone(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    remove_locked(place_of(HANDLE(comm), HANDLE_COMM));
    pthread_mutex_unlock(&lock);
}

void handle_gone(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    remove_locked(place_of(handle, HANDLE_OTHER));
    pthread_mutex_unlock(&lock);
}

uint64_t next_child(communicator *parent)
{
    return parent ? hash_finish(hash_word(hash_word(HASH_SEED, parent->identity), ++parent->children)) : 0;
}

uint32_t name_group(communicator *c)
{
    uint64_t generation = generation_now();
    c->group = agent.recorder->group(c->name, strlen(c->name), c->my_place, c->members, c->member_ranks);
    c->generation = generation;
    c->epoch[0] = c->epoch[1] = 0;
    if (c->neighbour_ranks) {
        char name[64];
        int size = snprintf(name, sizeof name, "%s/neighbours:%u", c->name, c->member_ranks[c->my_place]);
        agent.recorder->group(name, (size_t)size, c->neighbours, c->neighbours, (uint32_t *)c->neighbour_ranks);
    }
    return c->group;
}

uint32_t recorded_partners(communicator *window, MPI_Group group)
{
    char name[64];
    int size = 0;
    PMPI_Group_size(group, &size);
    uint32_t *ranks = (uint32_t *)ranks_in_world(group, size);
    if (ranks == NULL) {
        return 0;
    }
    uint64_t hash = hash_finish(hash_bytes(HASH_SEED, (const char *)ranks, (size_t)size * sizeof *ranks));
    int length = snprintf(name, sizeof name, "%s/%016llx", window->name, (unsigned long long)hash);
    uint32_t id = agent.recorder->group(name, (size_t)length, (uint32_t)size, (uint32_t)size, ranks);
    free(ranks);
    return id;
}

uint32_t group_of(MPI_Comm comm)
{
    return recorded_group(communicator_of(comm));
}

bool is_at_root(MPI_Comm comm, int root)
{
    communicator *c = communicator_of(comm);
    return c && (root == MPI_ROOT || (root >= 0 && root == c->my_rank && c->size == (int)c->members));
}
