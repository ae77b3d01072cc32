#include "unwind/unwind.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "unwind/dwarf_cursor.h"
#include "unwind/frame_rules.h"
#include "unwind/modules.h"

#define RULES 4096u /* power of two */
#define RULE_BYTES 64u /* of code, in which mostly one rule holds */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static frame_rule rules[RULES];
static uint64_t rules_version;
static enum memory_access access_kind = MEMORY_NONE;

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

enum calls { NO_CALL, SOME_CALL, CALL_OF_IT };

/* What the instruction before a return address calls, by `call rel32`, or by register or memory: the function that begins
 * at `function`, or any. */
static enum calls call_before(uintptr_t ra, uintptr_t function)
{
    static const uint8_t lengths[] = {2, 3, 4, 6, 7};
    uint8_t code[7];
    int32_t distance;
    if (!is_code(ra - 1) || !memory_read(access_kind, code, ra - sizeof code, sizeof code)) {
        return NO_CALL;
    }
    bool direct = code[sizeof code - 5] == 0xe8;
    memcpy(&distance, code + sizeof code - 4, sizeof distance);
    if (direct && ra + (uintptr_t)(intptr_t)distance == function) {
        return CALL_OF_IT;
    }
    bool indirect = false;
    for (size_t i = 0; i < sizeof lengths; i++) {
        const uint8_t *at = code + sizeof code - lengths[i];
        indirect |= at[0] == 0xff && (at[1] & 0x38) == 0x10;
    }
    return direct || indirect ? SOME_CALL : NO_CALL;
}

/* Where the frame pointer is not known (a thread at rest inside of a system call): where the function is called from is
 * what it returns to, whatever its caller has in that register. Else the first pair of words that looks like one that a
 * function has saved, with a return address to behind any call; such as earlier calls may have left in the stack. */
static uintptr_t guess_frame_pointer(uintptr_t sp, const unwind_stack *stack, uintptr_t function)
{
    uintptr_t saved, ra, other = 0, end = stack->low + stack->size;
    end = end > sp + 4096 ? end : sp + 4096;
    for (uintptr_t at = sp; at < end && stack_word(stack, at, &saved) && stack_word(stack, at + 8, &ra); at += 8) {
        enum calls calls = call_before(ra, function);
        if (calls == CALL_OF_IT) {
            return at;
        }
        if (other == 0 && calls == SOME_CALL && saved > at && saved < at + (1u << 20) && (saved & 7) == 0) {
            other = at;
        }
    }
    return other;
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

/* Leaves code that has no tables and has put nothing on the stack: glibc's clone, in which a thread stays while it
 * starts a program. */
static bool step_out_of_leaf(unwind_registers *at, const unwind_stack *stack, uintptr_t *slot)
{
    uintptr_t ra;
    if (!stack_word(stack, at->sp, &ra) || call_before(ra, 0) == NO_CALL) {
        return false;
    }
    *slot = at->sp;
    *at = (unwind_registers){ra, at->sp + 8, at->fp};
    return true;
}

static const frame_rule *rule_at(uintptr_t pc)
{
    frame_rule *rule = &rules[(pc / RULE_BYTES * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (RULES - 1)];
    if (pc < rule->low || pc >= rule->high) {
        memset(rule, 0, sizeof *rule);
        rule->known = frame_rule_find(access_kind, pc, rule);
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
        return step_by_frame_pointer(at, stack, slot) || (innermost && step_out_of_leaf(at, stack, slot));
    }
    uintptr_t cfa, ra, fp, unused;
    unwind_registers from = *at;
    bool needs_fp = rule->by_expression || rule->cfa_register == REGISTER_FP;
    if (needs_fp && from.fp == 0) {
        from.fp = guess_frame_pointer(from.sp, stack, rule->function);
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
        frame_rules_forget();
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
