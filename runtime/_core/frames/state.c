#include "frames/state.h"

#include <string.h>

bool frames_are_usable;

static char own_directory[4096];
static size_t own_directory_size;

void frames_set_own_directory(const char *directory)
{
    size_t size = strlen(directory);
    if (size > 0 && size + 2 < sizeof own_directory) {
        memcpy(own_directory, directory, size + 1);
        if (directory[size - 1] != '/') {
            own_directory[size++] = '/';
            own_directory[size] = 0;
        }
        own_directory_size = size;
    }
}

bool frames_file_is_own(const char *file, size_t size)
{
    return own_directory_size > 0 && size > own_directory_size && memcmp(file, own_directory, own_directory_size) == 0;
}
