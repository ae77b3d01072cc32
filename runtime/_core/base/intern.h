/* Hash tables of the recorder: code objects, call paths, totals. Ids start at 1; 0 means none, or no memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open addressing over rows of a growing array: `slots` holds row + 1, 0 for free. */
typedef struct {
    uint32_t *slots;
    uint32_t mask; /* number of slots - 1; 0 before the first insertion */
    uint32_t count;
    uint32_t capacity;
} row_index;

/* What is known of the code object at one address. The fingerprint tells whether it is still the same one. */
typedef struct {
    uint64_t address;
    uint64_t fingerprint;
    uint32_t id;
    bool own;       /* code of scalana's own runtime */
    bool generated; /* not from a file: may come and go */
    uint64_t name_hash;
} code_address;

typedef struct {
    row_index index;
    code_address *rows;
    /* Codes by content, so that code compiled again and again is one record. */
    row_index content_index;
    struct code_content {
        uint64_t hash[2];
        uint32_t id;
    } *contents;
} code_table;

typedef struct {
    uint32_t parent, code, lasti;
} path_row;

typedef struct {
    row_index index;
    path_row *rows; /* rows[id - 1] */
} path_table;

/* Calls of one kind: by their path, their operation and their communicator. */
typedef struct {
    uint32_t path, operation, group;
    uint64_t calls, nbytes, wall_ns, cpu_ns;
} total_amount;

typedef struct {
    total_amount sum;
    bool changed;
} total_row;

typedef struct {
    row_index index;
    total_row *rows;
    uint32_t changes;
} total_table;

/* Spans of one kind. */
typedef struct {
    uint32_t type, lane, name, path;
    uint64_t count, wall_ns, cpu_ns;
} span_amount;

typedef struct {
    span_amount sum;
    bool changed;
} span_total_row;

typedef struct {
    row_index index;
    span_total_row *rows;
} span_total_table;

/* The row of `address`, added (with id 0) when it is new; NULL when memory is short. Valid until the next call. */
code_address *code_at(code_table *t, uint64_t address);
/* Id of the code with this content; `fresh` says that it has to be recorded. Unless `may_add`, 0 for a new one. */
uint32_t code_by_content(code_table *t, const uint64_t hash[2], bool may_add, bool *fresh);
uint32_t path_intern(path_table *t, uint32_t parent, uint32_t code, uint32_t lasti, bool may_add, bool *fresh);
bool total_add(total_table *t, const total_amount *amount);
/* Adds to the spans of the same type, lane, name and path. False when memory is short, or if there are too many of these
 * already; those without name and path always have a place. */
bool span_total_add(span_total_table *t, const span_amount *amount);
void code_table_free(code_table *t);
void path_table_free(path_table *t);
void total_table_free(total_table *t);
void span_total_table_free(span_total_table *t);
