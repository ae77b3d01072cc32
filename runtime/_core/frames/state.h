/* What all that reads frames goes by: whose frames are left out, and whether this interpreter's can be read at all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Directory whose code is skipped at the inner end of a path. */
void frames_set_own_directory(const char *directory);

/* Whether a file lies in the directory whose code is skipped. */
bool frames_file_is_own(const char *file, size_t size);
/* Whether the self-test of frames_prepare() has passed. */
extern bool frames_are_usable;
