/* What is mapped where: executable, shared libraries, and where their unwind tables are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODULE_NAME 512
#define MODULE_BUILD_ID 41 /* 20 bytes in hexadecimal */

typedef struct {
    uintptr_t low, high;  /* addresses of code */
    uintptr_t base;       /* of an address minus this is the address that the file knows */
    uintptr_t unwind_table; /* .eh_frame_hdr, 0 where there is none */
    size_t unwind_size;
    uint32_t code;        /* id in the record, 0 before it is needed */
    uint64_t generation;  /* of the recording that `code` belongs to */
    char path[MODULE_NAME];
    char build_id[MODULE_BUILD_ID];
} module_row;

/* Looks at the loader's list again if that has changed. To be called without any lock that a thread might want that
 * loads a library: the loader runs constructors under its own. */
void modules_refresh(void);
/* Copies the row of the module that holds an address. False where none does. */
bool module_at(uintptr_t address, module_row *row);
/* Remembers the id that the record has for the module with this base. */
void module_set_code(uintptr_t base, uint32_t code, uint64_t generation);
/* Changes when modules come or go: what was derived from addresses is void. */
uint64_t modules_version(void);
