#include "unwind.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "memory.h"
#include "modules.h"

/* DWARF numbers of registers on x86-64. */
#define REGISTER_FP 6
#define REGISTER_SP 7
#define REGISTER_RA 16
#define RULES 4096u /* power of two */
#define RULE_BYTES 64u /* of code, in which mostly one rule holds */
#define ROWS_AT_ONCE 64u
#define LONGEST_ENTRY 1024u
#define DEEPEST_STATES 8

enum rule_kind { RULE_SAME, RULE_AT_CFA, RULE_EXPRESSION, RULE_VALUE, RULE_UNDEFINED };

typedef struct {
    uint8_t kind;
    uint8_t size;  /* of the expression */
    int32_t offset; /* from the CFA; or of the expression in `text` */
} value_rule;

/* How to leave a function at some instructions: where its caller's frame begins, return address and frame pointer. */
typedef struct {
    uintptr_t low, high; /* it holds for these instructions; 0 and 0: a free place in the cache */
    bool known, signal_frame, by_expression;
    uint8_t cfa_register;
    uint8_t cfa_size;
    int32_t cfa_offset;
    value_rule fp, ra;
    uint8_t text[48]; /* expressions */
} frame_rule;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static frame_rule rules[RULES];
static uint64_t rules_version;
static enum memory_access access_kind = MEMORY_NONE;

/* ---- reading tables ---- */

typedef struct {
    const uint8_t *at, *end;
    uintptr_t address; /* of `at` in the module, for what is relative to its own place */
    bool bad;
} cursor;

static uint64_t take(cursor *c, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < size) {
        c->bad = true;
        c->at = c->end;
        return 0;
    }
    memcpy(&value, c->at, size);
    c->at += size;
    c->address += size;
    return value;
}

static void skip(cursor *c, uint64_t size)
{
    if ((uint64_t)(c->end - c->at) < size) {
        c->bad = true;
        c->at = c->end;
    } else {
        c->at += size;
        c->address += size;
    }
}

static uint64_t take_leb(cursor *c, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = (uint8_t)take(c, 1);
        if (shift < 64) {
            value |= (uint64_t)(byte & 0x7f) << shift;
        }
        shift += 7;
    } while (byte & 0x80 && !c->bad);
    if (is_signed && byte & 0x40 && shift < 64) {
        value |= ~UINT64_C(0) << shift;
    }
    return value;
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
static bool read_entry(uintptr_t address, uint8_t *bytes, cursor *c)
{
    uint32_t length;
    if (!memory_read(access_kind, &length, address, sizeof length) || length == 0 || length >= 0xfffffff0u) {
        return false;
    }
    size_t size = length < LONGEST_ENTRY ? length : LONGEST_ENTRY;
    if (!memory_read(access_kind, bytes, address + 4, size)) {
        return false;
    }
    *c = (cursor){bytes, bytes + size, address + 4, false};
    return true;
}

/* Address of the entry for a pc by binary search in .eh_frame_hdr, 0 if there is none. */
static uintptr_t find_entry(const module_row *module, uintptr_t pc)
{
    uint8_t head[32];
    uintptr_t table = module->unwind_table;
    if (table == 0 || !memory_read(access_kind, head, table, sizeof head) || head[0] != 1 || head[3] != 0x3b) {
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
        if (!memory_read(access_kind, some[0], rows + middle * 8, sizeof some[0])) {
            return 0;
        }
        if (table + (intptr_t)some[0][0] <= pc) {
            low = middle;
        } else {
            high = middle;
        }
    }
    if (!memory_read(access_kind, some, rows + low * 8, (high - low) * 8)) {
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

static bool read_common(uintptr_t address, uint8_t *bytes, common_entry *e)
{
    cursor c;
    char augmentation[16] = {0};
    if (!read_entry(address, bytes, &c) || take(&c, 4) != 0) {
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

static bool make_rule(uintptr_t pc, frame_rule *rule)
{
    static uint8_t common_bytes[LONGEST_ENTRY], bytes[LONGEST_ENTRY];
    module_row module;
    common_entry e = {0};
    cursor c;
    if (!module_at(pc, &module)) {
        return false;
    }
    uintptr_t entry = find_entry(&module, pc);
    if (entry == 0 || !read_entry(entry, bytes, &c)) {
        return false;
    }
    uintptr_t back = c.address;
    back -= take(&c, 4);
    if (!read_common(back, common_bytes, &e)) {
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
    rule->signal_frame = e.signal_frame;
    text_space text = {rule, 0};
    if (!run(e.program, &e, 0, UINTPTR_MAX, rule, &text, NULL)) {
        return false;
    }
    frame_rule initial = *rule;
    rule->high = begin + size;
    return run(c, &e, begin, pc, rule, &text, &initial) && rule->ra.kind != RULE_SAME;
}

/* ---- one step outwards ---- */

static bool stack_word(const unwind_stack *stack, uintptr_t address, uintptr_t *value)
{
    if (address < stack->low || address - stack->low > stack->size || stack->size - (address - stack->low) < 8) {
        /* beyond what was copied: the outer part of a deep stack seldom changes */
        return address > stack->low && (address & 7) == 0 && memory_read(access_kind, value, address, sizeof *value);
    }
    memcpy(value, stack->bytes + (address - stack->low), sizeof *value);
    return true;
}

/* The part of DWARF's expressions that unwind tables use. `push_cfa`: start with the CFA on the stack. */
static bool evaluate(const uint8_t *text, size_t size, const unwind_registers *at, const unwind_stack *stack,
                     const uintptr_t *push_cfa, uintptr_t *result)
{
    uintptr_t values[16], a, b;
    unsigned depth = 0;
    cursor c = {text, text + size, 0, false};
    if (push_cfa) {
        values[depth++] = *push_cfa;
    }
    while (c.at < c.end && !c.bad) {
        uint8_t code = (uint8_t)take(&c, 1);
        if (depth >= 14) {
            return false;
        }
        if (code >= 0x30 && code <= 0x4f) { /* lit */
            values[depth++] = code - 0x30u;
            continue;
        }
        if (code >= 0x70 && code <= 0x8f) { /* breg */
            int64_t offset = (int64_t)take_leb(&c, true);
            if (code == 0x70 + REGISTER_FP && at->fp) {
                values[depth++] = at->fp + (uintptr_t)offset;
            } else if (code == 0x70 + REGISTER_SP) {
                values[depth++] = at->sp + (uintptr_t)offset;
            } else if (code == 0x70 + REGISTER_RA) {
                values[depth++] = at->pc + (uintptr_t)offset;
            } else {
                return false;
            }
            continue;
        }
        switch (code) {
        case 0x06: /* deref */
            if (depth == 0 || !stack_word(stack, values[depth - 1], &values[depth - 1])) {
                return false;
            }
            continue;
        case 0x08: values[depth++] = take(&c, 1); continue;
        case 0x09: values[depth++] = (uintptr_t)(intptr_t)(int8_t)take(&c, 1); continue;
        case 0x0a: values[depth++] = take(&c, 2); continue;
        case 0x0b: values[depth++] = (uintptr_t)(intptr_t)(int16_t)take(&c, 2); continue;
        case 0x10: values[depth++] = take_leb(&c, false); continue;
        case 0x11: values[depth++] = take_leb(&c, true); continue;
        case 0x23: /* plus_uconst */
            if (depth == 0) {
                return false;
            }
            values[depth - 1] += take_leb(&c, false);
            continue;
        default: break;
        }
        if (depth < 2) {
            return false;
        }
        b = values[--depth];
        a = values[depth - 1];
        switch (code) {
        case 0x1a: a &= b; break;
        case 0x1c: a -= b; break;
        case 0x21: a |= b; break;
        case 0x22: a += b; break;
        case 0x24: a = b < 64 ? a << b : 0; break;
        case 0x2a: a = (intptr_t)a >= (intptr_t)b; break;
        default: return false;
        }
        values[depth - 1] = a;
    }
    *result = depth ? values[depth - 1] : 0;
    return depth > 0 && !c.bad;
}

static bool restored(const frame_rule *rule, const value_rule *value, uintptr_t same, uintptr_t cfa,
                     const unwind_registers *at, const unwind_stack *stack, uintptr_t *result, uintptr_t *slot)
{
    *slot = 0;
    switch (value->kind) {
    case RULE_SAME: *result = same; return true;
    case RULE_AT_CFA: *slot = cfa + (uintptr_t)(intptr_t)value->offset; return stack_word(stack, *slot, result);
    case RULE_EXPRESSION:
        return evaluate(rule->text + value->offset, value->size, at, stack, &cfa, slot) &&
               stack_word(stack, *slot, result);
    case RULE_VALUE: return evaluate(rule->text + value->offset, value->size, at, stack, &cfa, result);
    default: return false;
    }
}

static bool is_code(uintptr_t address)
{
    module_row module;
    return module_at(address, &module);
}

/* Where the frame pointer is not known (a thread at rest inside of a system call): the first pair of words that looks
 * like one that a function with a frame pointer has saved. */
static uintptr_t guess_frame_pointer(uintptr_t sp, const unwind_stack *stack)
{
    uintptr_t saved, ra;
    for (uintptr_t at = sp; at < sp + 4096 && stack_word(stack, at, &saved) && stack_word(stack, at + 8, &ra); at += 8) {
        if (saved > at && saved < at + (1u << 20) && (saved & 7) == 0 && is_code(ra - 1)) {
            return at;
        }
    }
    return 0;
}

/* Leaves the innermost frame by its frame pointer alone. */
static bool step_by_frame_pointer(unwind_registers *at, const unwind_stack *stack, uintptr_t *slot)
{
    uintptr_t fp, ra;
    if (at->fp < at->sp || at->fp & 7 || !stack_word(stack, at->fp, &fp) || !stack_word(stack, at->fp + 8, &ra) ||
        !is_code(ra - 1)) {
        return false;
    }
    *slot = at->fp + 8;
    *at = (unwind_registers){ra, at->fp + 16, fp};
    return true;
}

static const frame_rule *rule_at(uintptr_t pc)
{
    frame_rule *rule = &rules[(pc / RULE_BYTES * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (RULES - 1)];
    if (pc < rule->low || pc >= rule->high) {
        memset(rule, 0, sizeof *rule);
        rule->known = make_rule(pc, rule);
        if (!rule->known) {
            rule->low = pc;
            rule->high = pc + 1;
        }
    }
    return rule;
}

static bool step(unwind_registers *at, bool innermost, const unwind_stack *stack, uintptr_t *slot, bool *signal_frame)
{
    const frame_rule *rule = rule_at(innermost ? at->pc : at->pc - 1);
    *signal_frame = false;
    if (!rule->known) {
        return step_by_frame_pointer(at, stack, slot);
    }
    uintptr_t cfa, ra, fp, unused;
    unwind_registers from = *at;
    bool needs_fp = rule->by_expression || rule->cfa_register == REGISTER_FP;
    if (needs_fp && from.fp == 0) {
        from.fp = guess_frame_pointer(from.sp, stack);
    }
    if (rule->by_expression) {
        if (!evaluate(rule->text + rule->cfa_offset, rule->cfa_size, &from, stack, NULL, &cfa)) {
            return false;
        }
    } else if (rule->cfa_register == REGISTER_SP || (rule->cfa_register == REGISTER_FP && from.fp)) {
        cfa = (rule->cfa_register == REGISTER_SP ? from.sp : from.fp) + (uintptr_t)(intptr_t)rule->cfa_offset;
    } else {
        return false;
    }
    if (cfa < from.sp || !restored(rule, &rule->ra, 0, cfa, &from, stack, &ra, slot) || ra == 0) {
        return false;
    }
    if (!restored(rule, &rule->fp, from.fp, cfa, &from, stack, &fp, &unused)) {
        fp = 0;
    }
    if (cfa == at->sp && ra == at->pc) {
        return false;
    }
    *signal_frame = rule->signal_frame;
    *at = (unwind_registers){ra, cfa, fp};
    if (rule->signal_frame) { /* the CFA of a signal frame is where the interrupted stack was */
        at->sp = cfa;
    }
    return true;
}

size_t unwind(unwind_registers at, const unwind_stack *stack, unwind_frame *frames, size_t capacity)
{
    size_t count = 0;
    bool exact = true; /* the pc is an instruction that runs, not one to return to */
    modules_refresh(); /* before the lock: see there */
    pthread_mutex_lock(&lock);
    if (access_kind == MEMORY_NONE) {
        access_kind = memory_guarded_access();
    }
    if (rules_version != modules_version()) {
        memset(rules, 0, sizeof rules);
        rules_version = modules_version();
    }
    uintptr_t slot = 0;
    while (count < capacity) {
        module_row module;
        uintptr_t pc = exact ? at.pc : at.pc - 1;
        if (count > 0 && at.fp == 0 && !module_at(pc, &module)) {
            break;
        }
        frames[count++] = (unwind_frame){pc, slot};
        bool signal_frame;
        if (!step(&at, exact, stack, &slot, &signal_frame)) {
            break;
        }
        exact = signal_frame;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
