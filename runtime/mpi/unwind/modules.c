#include "unwind/modules.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    module_row *rows;
    size_t count, capacity;
    unsigned long long changes;
} module_list;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static module_list modules;
static _Atomic uint64_t version;
static _Atomic unsigned long long known_changes;

static void read_build_id(const char *note, size_t size, char *text)
{
    size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= size) {
        const ElfW(Nhdr) *header = (const void *)(note + at);
        size_t name = at + sizeof *header;
        size_t data = name + ((header->n_namesz + 3u) & ~3u);
        if (data + header->n_descsz > size) {
            return;
        }
        if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 && memcmp(note + name, "GNU", 4) == 0) {
            size_t bytes = header->n_descsz < 20 ? header->n_descsz : 20;
            for (size_t i = 0; i < bytes; i++) {
                snprintf(text + 2 * i, 3, "%02x", (unsigned char)note[data + i]);
            }
            return;
        }
        at = data + ((header->n_descsz + 3u) & ~3u);
    }
}

static int count_changes(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(unsigned long long *)data = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

/* Runs under the loader's lock, during which no module goes away. */
static int add_module(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    module_list *list = data;
    module_row row = {.base = info->dlpi_addr};
    list->changes = info->dlpi_adds + info->dlpi_subs;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            row.low = row.low == 0 || start < row.low ? start : row.low;
            row.high = start + p->p_memsz > row.high ? start + p->p_memsz : row.high;
        } else if (p->p_type == PT_GNU_EH_FRAME) {
            row.unwind_table = start;
            row.unwind_size = p->p_memsz;
        } else if (p->p_type == PT_NOTE && row.build_id[0] == 0) {
            read_build_id((const char *)start, p->p_memsz, row.build_id);
        }
    }
    if (row.high == 0) {
        return 0;
    }
    if (info->dlpi_name == NULL || info->dlpi_name[0] == 0) {
        ssize_t n = readlink("/proc/self/exe", row.path, sizeof row.path - 1);
        row.path[n > 0 ? n : 0] = 0;
    } else if (strncmp(info->dlpi_name, "linux-vdso", 10) == 0 || strncmp(info->dlpi_name, "linux-gate", 10) == 0) {
        strcpy(row.path, "[vdso]");
    } else if (info->dlpi_name[0] != '/') {
        char *whole = realpath(info->dlpi_name, NULL);
        snprintf(row.path, sizeof row.path, "%s", whole ? whole : info->dlpi_name);
        free(whole);
    } else {
        snprintf(row.path, sizeof row.path, "%s", info->dlpi_name);
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        module_row *rows = realloc(list->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            return 0;
        }
        list->rows = rows;
        list->capacity = capacity;
    }
    list->rows[list->count++] = row;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = ((const module_row *)a)->low, y = ((const module_row *)b)->low;
    return (x > y) - (x < y);
}

void modules_refresh(void)
{
    unsigned long long changes = 0;
    dl_iterate_phdr(count_changes, &changes);
    if (changes == atomic_load(&known_changes)) {
        return;
    }
    module_list fresh = {0};
    dl_iterate_phdr(add_module, &fresh);
    if (fresh.count == 0) {
        return;
    }
    qsort(fresh.rows, fresh.count, sizeof *fresh.rows, by_address);
    pthread_mutex_lock(&lock);
    module_row *old = modules.rows;
    for (size_t i = 0; i < fresh.count; i++) {
        for (size_t k = 0; k < modules.count; k++) {
            const module_row *before = &modules.rows[k];
            if (before->base == fresh.rows[i].base && strcmp(before->path, fresh.rows[i].path) == 0) {
                fresh.rows[i].code = before->code;
                fresh.rows[i].generation = before->generation;
            }
        }
    }
    modules = fresh;
    atomic_store(&known_changes, fresh.changes);
    atomic_fetch_add(&version, 1);
    pthread_mutex_unlock(&lock);
    free(old);
}

bool module_at(uintptr_t address, module_row *row)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    size_t low = 0, high = modules.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (modules.rows[middle].low <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0 && address < modules.rows[low - 1].high) {
        *row = modules.rows[low - 1];
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void module_set_code(uintptr_t base, uint32_t code, uint64_t generation)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < modules.count; i++) {
        if (modules.rows[i].base == base) {
            modules.rows[i].code = code;
            modules.rows[i].generation = generation;
        }
    }
    pthread_mutex_unlock(&lock);
}

uint64_t modules_version(void)
{
    return atomic_load_explicit(&version, memory_order_relaxed);
}
