/* Names in a run folder, for processes without Python; runtime/record/layout.py has the same. */
#pragma once

#define RUN_VARIABLE "SCALANA_RUN_DIR"
#define RATE_VARIABLE "SCALANA_RATE_HZ"
#define BUDGET_VARIABLE "SCALANA_BUDGET_BYTES"
#define JOB_VARIABLE "SCALANA_JOB"
#define NATIVE_VARIABLE "SCALANA_NATIVE" /* the process that records itself, without Python */
#define PRELOAD_VARIABLE "SCALANA_PRELOAD" /* what a rank is to preload, if its host has it */
#define WITHOUT_MPI "MPI calls are not recorded on" /* how a note on a host that does not have it begins */
#define RUN_WORLDS "worlds"
#define RUN_LAUNCHES "launches"
#define DEFAULT_RATE_HZ 200.0
#define DEFAULT_BUDGET_BYTES (64 << 20)
#define RUN_RECORDS "records"
#define RUN_RECORD_END ".rec"
#define RUN_NOTE_END ".note"
