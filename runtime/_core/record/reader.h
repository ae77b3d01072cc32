/* Decodes a record file into tables and columns. Knows nothing of Python. The counterpart of writer.h. */
#ifndef SCALANA_RECORD_READER_H
#define SCALANA_RECORD_READER_H

#include "record/content.h"

enum read_result { READ_OK, READ_SYSTEM_ERROR /* errno */, READ_NOT_A_RECORD, READ_OTHER_VERSION, READ_NO_MEMORY };

enum read_result record_read(const char *path, record_content *content);

#endif
