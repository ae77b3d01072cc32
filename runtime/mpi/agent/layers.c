#include "agent/layers.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of slots.S, which is generated. */
extern const char *const agent_names[];
extern const unsigned agent_slot_count;

/* What a module imports, by its dynamic section. */
typedef struct {
    const ElfW(Rela) *rows[2];
    size_t counts[2];
    const ElfW(Sym) *symbols;
    const char *strings;
    bool needs_mpi; /* it was linked with an MPI library */
} imports;

static const char *const libraries[] = {"libmpi_mpifh", "libmpi_usempi", "libmpifort", "libmpichfort", "libmpichf90"};

static bool is_of_fortran(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; name && i < sizeof libraries / sizeof *libraries; i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_slot(const char *name)
{
    for (unsigned i = 0; i < agent_slot_count; i++) {
        if (strcmp(agent_names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* What is called instead of a name: of the second names of MPI, and of those that this MPI has and the one that the
 * slots were made for has not. A tool may stand before these. */
static void *wrapper_of(const agent_wrapper *wrappers, const char *name, const mpi_tools *tools)
{
    bool second = strncmp(name, "PMPI_", 5) == 0;
    if (!second && (tools->count || strncmp(name, "MPI_", 4) != 0)) {
        return NULL;
    }
    for (const agent_wrapper *w = wrappers; w->name; w++) {
        if (strcmp(w->name, name + second) == 0) {
            return second || !has_slot(name) ? w->function : NULL;
        }
    }
    return NULL;
}

static imports read_imports(const struct dl_phdr_info *info)
{
    imports found = {{NULL, NULL}, {0, 0}, NULL, NULL, false};
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    if (dynamic == NULL) {
        return found;
    }
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_JMPREL: found.rows[0] = (const void *)entry->d_un.d_ptr; break;
        case DT_PLTRELSZ: found.counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_RELA: found.rows[1] = (const void *)entry->d_un.d_ptr; break;
        case DT_RELASZ: found.counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_SYMTAB: found.symbols = (const void *)entry->d_un.d_ptr; break;
        case DT_STRTAB: found.strings = (const void *)entry->d_un.d_ptr; break;
        default: break;
        }
    }
    for (const ElfW(Dyn) *entry = dynamic; found.strings && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_NEEDED && strncmp(found.strings + entry->d_un.d_val, "libmpi", 6) == 0) {
            found.needs_mpi = true;
        }
    }
    return found;
}

/* Where a module's table of addresses is made read-only after it was loaded. */
static bool is_protected(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_GNU_RELRO && address >= start && address < start + p->p_memsz) {
            return true;
        }
    }
    return false;
}

static void redirect(const struct dl_phdr_info *info, void **slot, void *target)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot & ~(page - 1);
    bool locked = is_protected(info, (uintptr_t)slot);
    if (*slot == target || (locked && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)) {
        return;
    }
    __atomic_store_n(slot, target, __ATOMIC_RELEASE);
    if (locked) {
        mprotect((void *)start, page, PROT_READ);
    }
}

typedef struct {
    const agent_wrapper *wrappers;
    const char *library; /* of MPI */
    const mpi_tools *tools;
} search;

static bool contains(const struct dl_phdr_info *info, const void *address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (uintptr_t)address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
            return true;
        }
    }
    return false;
}

static bool is_tool(const struct dl_phdr_info *info, const mpi_tools *tools)
{
    for (size_t k = 0; k < tools->count; k++) {
        if (contains(info, tools->functions[k])) {
            return true;
        }
    }
    return false;
}

/* The program and its libraries: what is linked with MPI, and is neither in the folder of MPI's library, nor ours. */
static bool is_of_program(const struct dl_phdr_info *info, const imports *found, const search *s)
{
    const char *slash = strrchr(s->library, '/');
    size_t folder = slash ? (size_t)(slash - s->library) + 1 : 0;
    bool of_mpi = folder && info->dlpi_name && strncmp(info->dlpi_name, s->library, folder) == 0;
    return found->needs_mpi && !of_mpi && !contains(info, s->wrappers);
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    const search *s = data;
    (void)size;
    imports found = read_imports(info);
    if (!is_of_fortran(info->dlpi_name) && !is_tool(info, s->tools) && !is_of_program(info, &found, s)) {
        return 0;
    }
    for (int kind = 0; kind < 2 && found.symbols && found.strings; kind++) {
        for (size_t i = 0; found.rows[kind] && i < found.counts[kind]; i++) {
            const ElfW(Rela) *row = &found.rows[kind][i];
            unsigned type = (unsigned)ELF64_R_TYPE(row->r_info);
            if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) {
                continue;
            }
            const char *name = found.strings + found.symbols[ELF64_R_SYM(row->r_info)].st_name;
            void *target = wrapper_of(s->wrappers, name, s->tools);
            if (target) {
                redirect(info, (void **)(info->dlpi_addr + row->r_offset), target);
            }
        }
    }
    return 0;
}

void layers_add_tool(mpi_tools *tools, const void *function)
{
    Dl_info known, added;
    if (dladdr(function, &added) == 0) {
        return;
    }
    for (size_t i = 0; i < tools->count; i++) {
        if (dladdr(tools->functions[i], &known) && known.dli_fbase == added.dli_fbase) {
            return;
        }
    }
    if (tools->count < MOST_TOOLS) {
        tools->functions[tools->count++] = function;
    }
}

void layers_redirect(const agent_wrapper *wrappers, const char *library, const mpi_tools *tools)
{
    search s = {wrappers, library, tools};
    dl_iterate_phdr(visit, &s);
}
