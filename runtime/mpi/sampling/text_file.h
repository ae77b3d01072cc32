/* Files that the kernel makes up as they are read, such as those below /proc. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

/* The start of a file as a string; its length, 0 where there is nothing or the file cannot be read. */
static inline size_t read_text(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, capacity - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}
