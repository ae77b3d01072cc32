/* How to leave functions, by the tables of their modules (.eh_frame). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

/* DWARF numbers of registers on x86-64. */
#define REGISTER_FP 6
#define REGISTER_SP 7
#define REGISTER_RA 16

enum rule_kind { RULE_SAME, RULE_AT_CFA, RULE_EXPRESSION, RULE_VALUE, RULE_UNDEFINED };

typedef struct {
    uint8_t kind;
    uint8_t size;  /* of the expression */
    int32_t offset; /* from the CFA; or of the expression in `text` */
} value_rule;

/* How to leave a function at some instructions: where its caller's frame begins, return address and frame pointer. */
typedef struct {
    uintptr_t low, high; /* it holds for these instructions; 0 and 0: a free place in the cache */
    uintptr_t function;  /* its first instruction */
    bool known, signal_frame, by_expression;
    uint8_t cfa_register;
    uint8_t cfa_size;
    int32_t cfa_offset;
    value_rule fp, ra;
    uint8_t text[48]; /* expressions */
} frame_rule;

/* Fills in the rule for the instruction at `pc`, in cleared memory. False if the tables say none that can be used. Tables
 * are read with guarded reads, for their library may be unloaded meanwhile. One thread at a time. */
bool frame_rule_find(enum memory_access access, uintptr_t pc, frame_rule *rule);
/* Libraries were loaded or unloaded: what was read may no longer be there. */
void frame_rules_forget(void);
