/* Numbers of the record format, shared by the writer and the reader. runtime/record/format.py describes the format. */
#pragma once

#define RECORD_FILE_MAGIC "SCALANA1"
#define RECORD_FILE_VERSION 2u
/* The oldest reader's version that can make sense of what this writer writes. */
#define RECORD_READER_VERSION 2u
#define RECORD_FILE_HEADER 16u
#define RECORD_BLOCK_MAGIC 0x4B4C4253u
#define RECORD_BLOCK_HEADER 16u
/* No block is larger: a length beyond it is a torn or foreign header. */
#define RECORD_BLOCK_MAX (64u << 20)
/* No group has more members. */
#define RECORD_GROUP_MAX (64u << 20)

enum record_kind {
    RECORD_META = 1,
    RECORD_CODE = 2,
    RECORD_PATH = 3,
    RECORD_THREAD = 4,
    RECORD_TIME = 5,
    RECORD_SAMPLE = 6,
    RECORD_GROUP = 7,
    RECORD_EVENT = 8,
    RECORD_DONE = 9,
    RECORD_UNWRITTEN = 10, /* in version 1 spans, too */
    RECORD_TOTAL = 11,
    RECORD_OPEN = 12,
    RECORD_NOTE = 13,
    RECORD_END = 14,
    RECORD_STRIDED_GROUP = 15,
    RECORD_SIZED = 16, /* from here on the size of the rest follows, so that a reader may skip it */
    RECORD_STRING = 16,
    RECORD_LANE = 17,
    RECORD_SPAN = 18,
    RECORD_SPAN_TOTAL = 19
};

enum event_flag {
    EVENT_BLOCKING = 1,
    EVENT_POST = 2,
    EVENT_COMPLETION = 4,
    EVENT_FROM_CXX = 8,
    EVENT_ANY_SOURCE = 16,
    EVENT_NUMBERED = 32, /* of a receive from anybody: counted in its channel when it was complete */
    EVENT_WITHDRAWN = 64, /* completes a receive that was cancelled before there was a message for it */
    EVENT_UNCOUNTED = 128, /* of a call: part of one that counts itself; not written */
    EVENT_CPU_UNKNOWN = 128, /* in a file: nobody read the thread's CPU clock */
    EVENT_LEVEL_SHIFT = 8
};

/* In the place of a span's type, in records of kind 10. */
enum { UNWRITTEN_CALLS = 7 };

/* Types of spans; their names are in module/span_types.h. */
enum span_type {
    SPAN_OTHER = 0,
    SPAN_REGION = 1,
    SPAN_STEP = 2,
    SPAN_PHASE = 3,
    SPAN_MODULE = 4,
    SPAN_DEVICE = 5,
    SPAN_ACTION = 6,
    SPAN_TRAJECTORY = 8,
    SPAN_REQUEST = 9,
    SPAN_KERNEL = 10,
    SPAN_COPY = 11,
    SPAN_TRANSFER = 12,
    SPAN_OPTIMIZER = 13,
    SPAN_DATA = 14,
    SPAN_WAIT = 15,
    SPAN_AWAIT = 16,
    SPAN_COLLECTION = 17,
    SPAN_SERIALISATION = 18,
    SPAN_TYPES
};

enum lane_kind { LANE_THREAD = 0, LANE_STREAM = 1, LANE_SLOT = 2, LANE_STAGE = 3, LANE_OTHER = 4, LANE_KINDS };

enum attribute_tag { ATTRIBUTE_NUMBER = 0, ATTRIBUTE_REAL = 1, ATTRIBUTE_TEXT = 2 };

enum thread_flag { THREAD_MAIN = 1, THREAD_PYTHON = 2, THREAD_NATIVE = 4 };

enum thread_activity {
    STATE_RUNNING = 0,
    STATE_ASLEEP = 1,
    STATE_LOCK = 2,
    STATE_IPC = 3,
    STATE_DISK = 4,
    STATE_UNKNOWN = 5,
    STATE_CPU_UNKNOWN = 8 /* added to it in a file: nobody read the thread's CPU clock */
};

/* Rows of runtime/operations.py that the writer must tell apart to thin consistently, and those that say nothing of how
 * far a program has come. */
enum operation_code {
    OPERATION_SEND = 10,
    OPERATION_RECV = 11,
    OPERATION_WAIT = 12,
    OPERATION_STORE = 16,
    OPERATION_BLOCKING_SEND = 21,
    OPERATION_TEST = 25,
    OPERATION_SUBMIT = 38, /* this one and those up to the last meet by an id, which is their number */
    OPERATION_BLOCKED_PUT = 44,
    OPERATION_NEXT_BATCH = 45
};
