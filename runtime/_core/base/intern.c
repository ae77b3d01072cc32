#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

/* What a program names differently each time must not take memory without end. */
#define MOST_SPAN_TOTALS (1u << 16)

typedef uint64_t (*row_hash)(const void *rows, uint32_t row);

static uint64_t mix(uint64_t a, uint64_t b)
{
    return hash_finish(a * UINT64_C(0x9E3779B97F4A7C15) ^ b);
}

/* Makes room for one more row: rows and slots at most half full. */
static bool index_reserve(row_index *x, void **rows, size_t row_size, row_hash hash)
{
    if (x->count >= x->capacity) {
        uint32_t capacity = x->capacity ? x->capacity * 2 : 256;
        if (capacity > (UINT32_C(1) << 28)) {
            return false;
        }
        void *grown = realloc(*rows, capacity * row_size);
        if (grown == NULL) {
            return false;
        }
        *rows = grown;
        x->capacity = capacity;
    }
    if (x->slots == NULL || x->count * 2 >= x->mask) {
        uint32_t size = x->slots ? (x->mask + 1) * 2 : 1024;
        uint32_t *slots = calloc(size, sizeof *slots);
        if (slots == NULL) {
            return false;
        }
        for (uint32_t row = 0; row < x->count; row++) {
            uint32_t at = (uint32_t)hash(*rows, row) & (size - 1);
            while (slots[at]) {
                at = (at + 1) & (size - 1);
            }
            slots[at] = row + 1;
        }
        free(x->slots);
        x->slots = slots;
        x->mask = size - 1;
    }
    return true;
}

static uint64_t address_hash(const void *rows, uint32_t row)
{
    return mix(((const code_address *)rows)[row].address, 0);
}

code_address *code_at(code_table *t, uint64_t address)
{
    row_index *x = &t->index;
    uint32_t at = 0;
    if (x->slots) {
        for (at = (uint32_t)mix(address, 0) & x->mask; x->slots[at]; at = (at + 1) & x->mask) {
            code_address *row = &t->rows[x->slots[at] - 1];
            if (row->address == address) {
                return row;
            }
        }
    }
    void *rows = t->rows;
    bool room = index_reserve(x, &rows, sizeof *t->rows, address_hash);
    t->rows = rows;
    if (!room) {
        return NULL;
    }
    for (at = (uint32_t)mix(address, 0) & x->mask; x->slots[at]; at = (at + 1) & x->mask) {
    }
    code_address *row = &t->rows[x->count++];
    memset(row, 0, sizeof *row);
    row->address = address;
    x->slots[at] = x->count;
    return row;
}

static uint64_t content_hash(const void *rows, uint32_t row)
{
    return ((const struct code_content *)rows)[row].hash[0];
}

uint32_t code_by_content(code_table *t, const uint64_t hash[2], bool may_add, bool *fresh)
{
    row_index *x = &t->content_index;
    *fresh = false;
    if (x->slots) {
        for (uint32_t at = (uint32_t)hash[0] & x->mask; x->slots[at]; at = (at + 1) & x->mask) {
            struct code_content *row = &t->contents[x->slots[at] - 1];
            if (row->hash[0] == hash[0] && row->hash[1] == hash[1]) {
                return row->id;
            }
        }
    }
    void *rows = t->contents;
    bool room = may_add && index_reserve(x, &rows, sizeof *t->contents, content_hash);
    t->contents = rows;
    if (!room) {
        return 0;
    }
    uint32_t at = (uint32_t)hash[0] & x->mask;
    while (x->slots[at]) {
        at = (at + 1) & x->mask;
    }
    struct code_content *row = &t->contents[x->count++];
    row->hash[0] = hash[0];
    row->hash[1] = hash[1];
    row->id = x->count;
    x->slots[at] = x->count;
    *fresh = true;
    return row->id;
}

static uint64_t path_key(uint32_t parent, uint32_t code, uint32_t lasti)
{
    return mix((uint64_t)parent << 32 | code, lasti);
}

static uint64_t path_hash(const void *rows, uint32_t row)
{
    const path_row *p = &((const path_row *)rows)[row];
    return path_key(p->parent, p->code, p->lasti);
}

uint32_t path_intern(path_table *t, uint32_t parent, uint32_t code, uint32_t lasti, bool may_add, bool *fresh)
{
    row_index *x = &t->index;
    uint64_t hash = path_key(parent, code, lasti);
    *fresh = false;
    if (x->slots) {
        for (uint32_t at = (uint32_t)hash & x->mask; x->slots[at]; at = (at + 1) & x->mask) {
            const path_row *row = &t->rows[x->slots[at] - 1];
            if (row->parent == parent && row->code == code && row->lasti == lasti) {
                return x->slots[at];
            }
        }
    }
    void *rows = t->rows;
    bool room = may_add && index_reserve(x, &rows, sizeof *t->rows, path_hash);
    t->rows = rows;
    if (!room) {
        return 0;
    }
    uint32_t at = (uint32_t)hash & x->mask;
    while (x->slots[at]) {
        at = (at + 1) & x->mask;
    }
    t->rows[x->count++] = (path_row){parent, code, lasti};
    x->slots[at] = x->count;
    *fresh = true;
    return x->count;
}

static uint64_t total_key(uint32_t path, uint32_t operation, uint32_t group)
{
    return mix((uint64_t)path << 32 | group, operation);
}

static uint64_t total_hash(const void *rows, uint32_t row)
{
    const total_amount *r = &((const total_row *)rows)[row].sum;
    return total_key(r->path, r->operation, r->group);
}

static total_row *total_find(total_table *t, uint32_t path, uint32_t operation, uint32_t group)
{
    row_index *x = &t->index;
    uint64_t hash = total_key(path, operation, group);
    if (x->slots) {
        for (uint32_t at = (uint32_t)hash & x->mask; x->slots[at]; at = (at + 1) & x->mask) {
            total_row *row = &t->rows[x->slots[at] - 1];
            if (row->sum.path == path && row->sum.operation == operation && row->sum.group == group) {
                return row;
            }
        }
    }
    void *rows = t->rows;
    bool room = index_reserve(x, &rows, sizeof *t->rows, total_hash);
    t->rows = rows;
    if (!room) {
        return NULL;
    }
    uint32_t at = (uint32_t)hash & x->mask;
    while (x->slots[at]) {
        at = (at + 1) & x->mask;
    }
    total_row *row = &t->rows[x->count++];
    *row = (total_row){.sum = {.path = path, .operation = operation, .group = group}};
    x->slots[at] = x->count;
    return row;
}

bool total_add(total_table *t, const total_amount *amount)
{
    total_row *row = total_find(t, amount->path, amount->operation, amount->group);
    if (row == NULL) {
        return false;
    }
    row->sum.calls += amount->calls;
    row->sum.nbytes += amount->nbytes;
    row->sum.wall_ns += amount->wall_ns;
    row->sum.cpu_ns += amount->cpu_ns;
    if (!row->changed) {
        row->changed = true;
        t->changes++;
    }
    return true;
}

static bool same_spans(const span_amount *a, const span_amount *b)
{
    return a->type == b->type && a->lane == b->lane && a->name == b->name && a->path == b->path;
}

static uint64_t span_total_key(const span_amount *a)
{
    return mix((uint64_t)a->path << 32 | a->name, (uint64_t)a->lane << 32 | a->type);
}

static uint64_t span_total_hash(const void *rows, uint32_t row)
{
    return span_total_key(&((const span_total_row *)rows)[row].sum);
}

bool span_total_add(span_total_table *t, const span_amount *amount)
{
    row_index *x = &t->index;
    uint64_t hash = span_total_key(amount);
    span_total_row *row = NULL;
    if (x->slots) {
        for (uint32_t at = (uint32_t)hash & x->mask; row == NULL && x->slots[at]; at = (at + 1) & x->mask) {
            span_total_row *other = &t->rows[x->slots[at] - 1];
            row = same_spans(&other->sum, amount) ? other : NULL;
        }
    }
    if (row == NULL) {
        void *rows = t->rows;
        bool few = x->count < MOST_SPAN_TOTALS || (amount->name == 0 && amount->path == 0);
        bool room = few && index_reserve(x, &rows, sizeof *t->rows, span_total_hash);
        t->rows = rows;
        if (!room) {
            return false;
        }
        uint32_t at = (uint32_t)hash & x->mask;
        while (x->slots[at]) {
            at = (at + 1) & x->mask;
        }
        row = &t->rows[x->count++];
        *row = (span_total_row){
            .sum = {.type = amount->type, .lane = amount->lane, .name = amount->name, .path = amount->path}};
        x->slots[at] = x->count;
    }
    row->sum.count += amount->count;
    row->sum.wall_ns += amount->wall_ns;
    row->sum.cpu_ns += amount->cpu_ns;
    row->changed = true;
    return true;
}

void code_table_free(code_table *t)
{
    free(t->index.slots);
    free(t->rows);
    free(t->content_index.slots);
    free(t->contents);
    memset(t, 0, sizeof *t);
}

void path_table_free(path_table *t)
{
    free(t->index.slots);
    free(t->rows);
    memset(t, 0, sizeof *t);
}

void total_table_free(total_table *t)
{
    free(t->index.slots);
    free(t->rows);
    memset(t, 0, sizeof *t);
}

void span_total_table_free(span_total_table *t)
{
    free(t->index.slots);
    free(t->rows);
    memset(t, 0, sizeof *t);
}
