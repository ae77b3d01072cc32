#include "unwind/frame_rules.h"

#include "unwind/dwarf_cursor.h"
#include "unwind/modules.h"

#define ROWS_AT_ONCE 64u
#define LONGEST_ENTRY 1024u
#define DEEPEST_STATES 8
#define PAGE_BYTES 4096u
#define PAGES 64u /* power of two */

/* Pages of tables that were read of late: a guarded read is a system call, and each rule takes some. */
static struct {
    uintptr_t address; /* 0: nothing */
    uint8_t bytes[PAGE_BYTES];
} pages[PAGES];

void frame_rules_forget(void)
{
    for (unsigned i = 0; i < PAGES; i++) {
        pages[i].address = 0;
    }
}

static bool read_table(enum memory_access access, void *to, uintptr_t from, size_t size)
{
    for (uint8_t *next = to; size > 0;) {
        uintptr_t page = from & ~(uintptr_t)(PAGE_BYTES - 1), offset = from - page;
        unsigned place = (unsigned)(page / PAGE_BYTES) & (PAGES - 1);
        size_t part = size < PAGE_BYTES - offset ? size : PAGE_BYTES - offset;
        if (page == 0) {
            return false;
        }
        if (pages[place].address != page) {
            pages[place].address = 0;
            if (!memory_read(access, pages[place].bytes, page, PAGE_BYTES)) {
                return false;
            }
            pages[place].address = page;
        }
        memcpy(next, pages[place].bytes + offset, part);
        next += part;
        from += part;
        size -= part;
    }
    return true;
}

/* A pointer in one of the encodings of exception tables (LSB, "DWARF Extensions"). */
static uintptr_t take_pointer(cursor *c, uint8_t encoding)
{
    uintptr_t here = c->address;
    uint64_t value;
    switch (encoding & 0x0f) {
    case 0x00: case 0x04: case 0x0c: value = take(c, 8); break;
    case 0x01: value = take_leb(c, false); break;
    case 0x02: value = take(c, 2); break;
    case 0x03: value = take(c, 4); break;
    case 0x09: value = take_leb(c, true); break;
    case 0x0a: value = (uint64_t)(int64_t)(int16_t)take(c, 2); break;
    case 0x0b: value = (uint64_t)(int64_t)(int32_t)take(c, 4); break;
    default: c->bad = true; return 0;
    }
    return (encoding & 0x70) == 0x10 && value ? here + value : value;
}

/* Bytes of a table entry with its length in front. False if it is too long to be one, or gone. */
static bool read_entry(enum memory_access access, uintptr_t address, uint8_t *bytes, cursor *c)
{
    uint32_t length;
    if (!read_table(access, &length, address, sizeof length) || length == 0 || length >= 0xfffffff0u) {
        return false;
    }
    size_t size = length < LONGEST_ENTRY ? length : LONGEST_ENTRY;
    if (!read_table(access, bytes, address + 4, size)) {
        return false;
    }
    *c = (cursor){bytes, bytes + size, address + 4, false};
    return true;
}

/* Address of the entry for a pc by binary search in .eh_frame_hdr, 0 if there is none. */
static uintptr_t find_entry(enum memory_access access, const module_row *module, uintptr_t pc)
{
    uint8_t head[32];
    uintptr_t table = module->unwind_table;
    if (table == 0 || !read_table(access, head, table, sizeof head) || head[0] != 1 || head[3] != 0x3b) {
        return 0;
    }
    cursor c = {head + 4, head + sizeof head, table + 4, false};
    take_pointer(&c, head[1]);
    uint64_t count = take_pointer(&c, head[2]);
    uintptr_t rows = c.address;
    if (c.bad || count == 0 || rows + count * 8 > table + module->unwind_size) {
        return 0;
    }
    uint64_t low = 0, high = count; /* the last row that begins at the pc or before is one of these */
    int32_t some[ROWS_AT_ONCE][2];
    while (high - low > ROWS_AT_ONCE) {
        uint64_t middle = (low + high) / 2;
        if (!read_table(access, some[0], rows + middle * 8, sizeof some[0])) {
            return 0;
        }
        if (table + (intptr_t)some[0][0] <= pc) {
            low = middle;
        } else {
            high = middle;
        }
    }
    if (!read_table(access, some, rows + low * 8, (high - low) * 8)) {
        return 0;
    }
    uint64_t at = 0;
    while (at < high - low && table + (intptr_t)some[at][0] <= pc) {
        at++;
    }
    return at ? table + (uintptr_t)(intptr_t)some[at - 1][1] : 0;
}

typedef struct {
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool augmented, signal_frame;
    cursor program;
} common_entry;

static bool read_common(enum memory_access access, uintptr_t address, uint8_t *bytes, common_entry *e)
{
    cursor c;
    char augmentation[16] = {0};
    if (!read_entry(access, address, bytes, &c) || take(&c, 4) != 0) {
        return false;
    }
    uint8_t version = (uint8_t)take(&c, 1);
    for (size_t i = 0; i < sizeof augmentation - 1; i++) {
        augmentation[i] = (char)take(&c, 1);
        if (augmentation[i] == 0) {
            break;
        }
    }
    e->code_align = take_leb(&c, false);
    e->data_align = (int64_t)take_leb(&c, true);
    if ((version == 1 ? take(&c, 1) : take_leb(&c, false)) != REGISTER_RA) {
        return false;
    }
    e->augmented = augmentation[0] == 'z';
    if (e->augmented) {
        uint64_t size = take_leb(&c, false);
        cursor after = c;
        skip(&after, size);
        for (const char *letter = augmentation + 1; *letter; letter++) {
            if (*letter == 'R') {
                e->encoding = (uint8_t)take(&c, 1);
            } else if (*letter == 'P') {
                take_pointer(&c, (uint8_t)take(&c, 1));
            } else if (*letter == 'L') {
                take(&c, 1);
            } else if (*letter == 'S') {
                e->signal_frame = true;
            }
        }
        c = after;
    } else if (augmentation[0]) {
        return false;
    }
    e->program = c;
    return !c.bad;
}

/* ---- call frame instructions ---- */

typedef struct {
    frame_rule *rule;
    size_t used; /* of rule->text */
} text_space;

static bool keep_expression(text_space *text, cursor *c, uint8_t *size, int32_t *offset)
{
    uint64_t length = take_leb(c, false);
    if (c->bad || (size_t)(c->end - c->at) < length || text->used + length > sizeof text->rule->text) {
        return false;
    }
    memcpy(text->rule->text + text->used, c->at, length);
    *offset = (int32_t)text->used;
    *size = (uint8_t)length;
    text->used += length;
    skip(c, length);
    return true;
}

static value_rule *rule_of(frame_rule *rule, uint64_t number)
{
    static __thread value_rule ignored;
    return number == REGISTER_FP ? &rule->fp : number == REGISTER_RA ? &rule->ra : &ignored;
}

static bool run(cursor c, const common_entry *e, uintptr_t from, uintptr_t pc, frame_rule *rule, text_space *text,
                const frame_rule *initial)
{
    uintptr_t location = rule->low = from;
    frame_rule saved[DEEPEST_STATES];
    unsigned depth = 0;
    while (c.at < c.end && !c.bad) {
        uint8_t code = (uint8_t)take(&c, 1);
        uint64_t low = code & 0x3f;
        uint64_t number;
        if ((code & 0xc0) == 0x40) { /* advance_loc */
            location += low * e->code_align;
        } else if ((code & 0xc0) == 0x80) { /* offset */
            *rule_of(rule, low) = (value_rule){.kind = RULE_AT_CFA,
                                               .offset = (int32_t)((int64_t)take_leb(&c, false) * e->data_align)};
        } else if ((code & 0xc0) == 0xc0) { /* restore */
            if (initial) {
                *rule_of(rule, low) = low == REGISTER_FP ? initial->fp : initial->ra;
            }
        } else {
            switch (code) {
            case 0x00: break;
            case 0x01: location = take_pointer(&c, e->encoding); break;
            case 0x02: location += take(&c, 1) * e->code_align; break;
            case 0x03: location += take(&c, 2) * e->code_align; break;
            case 0x04: location += take(&c, 4) * e->code_align; break;
            case 0x05: case 0x11: /* offset_extended, offset_extended_sf */
                number = take_leb(&c, false);
                *rule_of(rule, number) =
                    (value_rule){.kind = RULE_AT_CFA,
                                 .offset = (int32_t)((int64_t)take_leb(&c, code == 0x11) * e->data_align)};
                break;
            case 0x06: /* restore_extended */
                number = take_leb(&c, false);
                if (initial) {
                    *rule_of(rule, number) = number == REGISTER_FP ? initial->fp : initial->ra;
                }
                break;
            case 0x07: case 0x08: /* undefined, same_value */
                *rule_of(rule, take_leb(&c, false)) = (value_rule){.kind = code == 0x07 ? RULE_UNDEFINED : RULE_SAME};
                break;
            case 0x09: case 0x14: case 0x15: /* register, val_offset, val_offset_sf: they are not followed */
                number = take_leb(&c, false);
                take_leb(&c, code == 0x15);
                *rule_of(rule, number) = (value_rule){.kind = RULE_UNDEFINED};
                break;
            case 0x0a: /* remember_state */
                if (depth == DEEPEST_STATES) {
                    return false;
                }
                saved[depth++] = *rule;
                break;
            case 0x0b: /* restore_state */
                if (depth == 0) {
                    return false;
                }
                *rule = saved[--depth];
                break;
            case 0x0c: case 0x12: /* def_cfa, def_cfa_sf */
                rule->by_expression = false;
                rule->cfa_register = (uint8_t)take_leb(&c, false);
                rule->cfa_offset = (int32_t)(code == 0x12 ? (int64_t)take_leb(&c, true) * e->data_align
                                                          : (int64_t)take_leb(&c, false));
                break;
            case 0x0d: /* def_cfa_register */
                rule->by_expression = false;
                rule->cfa_register = (uint8_t)take_leb(&c, false);
                break;
            case 0x0e: case 0x13: /* def_cfa_offset, def_cfa_offset_sf */
                rule->cfa_offset = (int32_t)(code == 0x13 ? (int64_t)take_leb(&c, true) * e->data_align
                                                          : (int64_t)take_leb(&c, false));
                break;
            case 0x0f: { /* def_cfa_expression */
                int32_t offset;
                if (!keep_expression(text, &c, &rule->cfa_size, &offset)) {
                    return false;
                }
                rule->by_expression = true;
                rule->cfa_offset = offset;
                break;
            }
            case 0x10: case 0x16: { /* expression, val_expression */
                value_rule made = {.kind = code == 0x10 ? RULE_EXPRESSION : RULE_VALUE};
                number = take_leb(&c, false);
                if (number != REGISTER_FP && number != REGISTER_RA) {
                    uint64_t length = take_leb(&c, false);
                    skip(&c, length);
                } else if (keep_expression(text, &c, &made.size, &made.offset)) {
                    *rule_of(rule, number) = made;
                } else {
                    return false;
                }
                break;
            }
            case 0x2e: take_leb(&c, false); break; /* GNU_args_size */
            default: return false;
            }
        }
        if (location > pc) {
            rule->high = location;
            return true; /* what follows is for later instructions */
        }
        rule->low = location;
    }
    return !c.bad;
}

bool frame_rule_find(enum memory_access access, uintptr_t pc, frame_rule *rule)
{
    static uint8_t common_bytes[LONGEST_ENTRY], bytes[LONGEST_ENTRY];
    module_row module;
    common_entry e = {0};
    cursor c;
    if (!module_at(pc, &module)) {
        return false;
    }
    uintptr_t entry = find_entry(access, &module, pc);
    if (entry == 0 || !read_entry(access, entry, bytes, &c)) {
        return false;
    }
    uintptr_t back = c.address;
    back -= take(&c, 4);
    if (!read_common(access, back, common_bytes, &e)) {
        return false;
    }
    uintptr_t begin = take_pointer(&c, e.encoding);
    uintptr_t size = take_pointer(&c, e.encoding & 0x0f);
    if (c.bad || pc < begin || pc >= begin + size) {
        return false;
    }
    if (e.augmented) {
        skip(&c, take_leb(&c, false));
    }
    rule->function = begin;
    rule->signal_frame = e.signal_frame;
    text_space text = {rule, 0};
    if (!run(e.program, &e, 0, UINTPTR_MAX, rule, &text, NULL)) {
        return false;
    }
    frame_rule initial = *rule;
    rule->high = begin + size;
    return run(c, &e, begin, pc, rule, &text, &initial) && rule->ra.kind != RULE_SAME;
}
