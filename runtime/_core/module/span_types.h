/* Names of the types of spans, by their numbers in record/kinds.h: what a program says as `kind`. A test compares them
 * with SPAN_TYPES in runtime/record/format.py. */
#pragma once

#include "record/kinds.h"

static const char *const span_type_names[SPAN_TYPES] = {
    [SPAN_OTHER] = "other",           [SPAN_REGION] = "region",   [SPAN_STEP] = "step",
    [SPAN_PHASE] = "phase",           [SPAN_MODULE] = "module",   [SPAN_DEVICE] = "device",
    [SPAN_ACTION] = "action",         [UNWRITTEN_CALLS] = "",     [SPAN_TRAJECTORY] = "trajectory",
    [SPAN_REQUEST] = "request",       [SPAN_KERNEL] = "kernel",   [SPAN_COPY] = "copy",
    [SPAN_TRANSFER] = "transfer",     [SPAN_OPTIMIZER] = "optimizer", [SPAN_DATA] = "data",
    [SPAN_WAIT] = "wait",             [SPAN_AWAIT] = "await",
    [SPAN_COLLECTION] = "collection", [SPAN_SERIALISATION] = "serialisation",
};
