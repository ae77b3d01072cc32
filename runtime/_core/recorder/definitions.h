/* What other records refer to: communicators, threads, code objects and call paths, each recorded once.
 *
 * The *_locked functions need the recorder's lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/intern.h"

/* One frame of a call path: a code id and the byte offset of the instruction (or the line, for codes without table). */
typedef struct {
    uint32_t code;
    uint32_t lasti;
} path_step;

typedef struct {
    const char *file, *name;
    size_t file_size, name_size;
    uint32_t first_line, minor;
    const uint8_t *table;
    size_t table_size;
} code_content_view;

void recorder_meta(const char *key, size_t key_size, const char *value, size_t value_size);
void recorder_note(const char *text, size_t size);
/* Id of the communicator; 0 when recording is off. The same name and ranks give the same id. */
uint32_t recorder_group(const char *name, size_t size, uint32_t my_rank, uint32_t members, const uint32_t *ranks);

/* Index of a thread by its kernel id; recorded on first sight, and again when it gains flags. */
uint32_t recorder_thread(pid_t tid, uint32_t flags);
/* Forgets that this kernel id stands for a thread that has ended. */
void recorder_thread_gone(pid_t tid);

code_address *recorder_code_at_locked(uint64_t address);
uint32_t recorder_code_locked(const code_content_view *code);
uint32_t recorder_path_locked(uint32_t parent, uint32_t code, uint32_t lasti);

/* False once definitions alone would outgrow the budget. */
bool recorder_may_define_locked(void);
