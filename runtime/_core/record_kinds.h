/* Numbers of the record format, shared by the writer and the reader. runtime/record/format.py describes the format. */
#ifndef SCALANA_RECORD_KINDS_H
#define SCALANA_RECORD_KINDS_H

#define RECORD_FILE_MAGIC "SCALANA1"
#define RECORD_FILE_VERSION 1u
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
    RECORD_INTERVAL = 10,
    RECORD_TOTAL = 11,
    RECORD_OPEN = 12,
    RECORD_NOTE = 13,
    RECORD_END = 14,
    RECORD_STRIDED_GROUP = 15
};

enum event_flag {
    EVENT_BLOCKING = 1,
    EVENT_POST = 2,
    EVENT_COMPLETION = 4,
    EVENT_FROM_CXX = 8,
    EVENT_ANY_SOURCE = 16,
    EVENT_NUMBERED = 32, /* of a receive from anybody: counted in its channel when it was complete */
    EVENT_WITHDRAWN = 64, /* completes a receive that was cancelled before there was a message for it */
    EVENT_UNCOUNTED = 128, /* not written: part of a call that counts itself */
    EVENT_LEVEL_SHIFT = 8
};

enum { INTERVAL_UNWRITTEN = 7 };

enum thread_flag { THREAD_MAIN = 1, THREAD_PYTHON = 2, THREAD_NATIVE = 4 };

enum thread_activity {
    STATE_RUNNING = 0,
    STATE_ASLEEP = 1,
    STATE_LOCK = 2,
    STATE_IPC = 3,
    STATE_DISK = 4,
    STATE_UNKNOWN = 5
};

/* Rows of runtime/operations.py that the writer must tell apart to thin consistently. */
enum operation_code { OPERATION_SEND = 10, OPERATION_RECV = 11, OPERATION_WAIT = 12, OPERATION_BLOCKING_SEND = 21 };

#endif
