#include "threads/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT_FILES 64
/* Kept files get high numbers, out of the way of a program that counts on the lowest free one. */
#define FIRST_DESCRIPTOR 512
#define PROCESSOR_FIELD 39 /* of the stat of a thread, see proc(5) */

typedef struct {
    int fd;
    dev_t device;
    ino_t inode;
} kept_file;

static kept_file kept[KEPT_FILES];
static bool kept_ready;
static int list_slot = -1; /* of the folder with a folder for each thread */
/* Whether this kernel has the file at all. */
static bool no_syscall_file, no_schedstat_file;

/* ---- files ---- */

static void prepare_kept(void)
{
    if (!kept_ready) {
        for (int i = 0; i < KEPT_FILES; i++) {
            kept[i].fd = -1;
        }
        kept_ready = true;
    }
}

/* A program may close descriptors that are not its own, and get the same number again for a file of its own. */
static bool is_still_ours(const kept_file *k)
{
    struct stat info;
    return k->fd >= 0 && fstat(k->fd, &info) == 0 && info.st_dev == k->device && info.st_ino == k->inode;
}

static void release(int *slot)
{
    if (*slot >= 0) {
        kept_file *k = &kept[*slot];
        if (is_still_ours(k)) {
            close(k->fd);
        }
        k->fd = -1;
        *slot = -1;
    }
}

static int open_task_file(pid_t tid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int keep(int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return -1;
    }
    for (int i = 0; i < KEPT_FILES; i++) {
        if (kept[i].fd < 0) {
            int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
            if (high < 0) {
                return -1;
            }
            kept[i] = (kept_file){high, info.st_dev, info.st_ino};
            return i;
        }
    }
    return -1;
}

/* Reads the start of a file of a thread as a string. -1 on failure. */
static ssize_t read_task_file(thread_files *files, int *slot, const char *name, bool *missing, char *text, size_t size)
{
    ssize_t n = -1;
    if (*missing) {
        return -1;
    }
    if (*slot >= 0) {
        n = pread(kept[*slot].fd, text, size - 1, 0);
        if (n <= 0) {
            release(slot); /* the thread has ended, or the file is no longer ours */
        }
    }
    if (n <= 0) {
        int fd = open_task_file(files->tid, name);
        if (fd < 0) {
            struct stat info;
            *missing = errno == ENOENT && fstatat(AT_FDCWD, "/proc/self/task", &info, 0) == 0 &&
                       (fd = open_task_file((pid_t)syscall(SYS_gettid), name)) < 0 && errno == ENOENT;
            if (fd >= 0) {
                close(fd);
            }
            return -1;
        }
        n = pread(fd, text, size - 1, 0);
        if (n < 0 && (errno == EPERM || errno == EACCES)) {
            *missing = true;
        }
        if (n > 0) {
            *slot = keep(fd);
        }
        close(fd);
    }
    if (n >= 0) {
        text[n] = 0;
    }
    return n;
}

void thread_files_init(thread_files *files, pid_t tid)
{
    prepare_kept();
    files->tid = tid;
    files->syscall_slot = -1;
    files->schedstat_slot = -1;
}

void thread_files_close(thread_files *files)
{
    release(&files->syscall_slot);
    release(&files->schedstat_slot);
}

void thread_state_after_fork(void)
{
    if (kept_ready) {
        for (int i = 0; i < KEPT_FILES; i++) {
            int slot = i;
            release(&slot);
        }
    }
    list_slot = -1;
}

/* ---- what a system call waits for ---- */

static enum thread_activity by_descriptor(unsigned long fd)
{
    struct stat info;
    if (fd > 0x7fffffff || fstat((int)fd, &info) != 0) {
        return STATE_UNKNOWN;
    }
    return S_ISREG(info.st_mode) || S_ISBLK(info.st_mode) || S_ISDIR(info.st_mode) ? STATE_DISK : STATE_IPC;
}

static enum thread_activity classify(long number, unsigned long first, unsigned long second)
{
    switch (number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
#ifdef SYS_pause
    case SYS_pause:
#endif
        return STATE_ASLEEP;
    case SYS_futex:
#ifdef SYS_futex_waitv
    case SYS_futex_waitv:
#endif
    case SYS_flock:
    case SYS_fcntl:
        return STATE_LOCK;
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
        return second ? STATE_IPC : STATE_ASLEEP; /* without a descriptor they are a sleep */
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
        return first ? STATE_IPC : STATE_ASLEEP;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_wait4:
    case SYS_waitid:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_mq_timedreceive:
    case SYS_mq_timedsend:
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
        return STATE_IPC;
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_splice:
    case SYS_sendfile:
        return by_descriptor(first);
    case SYS_pread64:
    case SYS_preadv:
    case SYS_pwrite64:
    case SYS_pwritev:
#ifdef SYS_preadv2
    case SYS_preadv2:
    case SYS_pwritev2:
#endif
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync:
    case SYS_syncfs:
    case SYS_sync_file_range:
    case SYS_msync:
    case SYS_readahead:
    case SYS_fallocate:
    case SYS_ftruncate:
    case SYS_truncate:
#ifdef SYS_copy_file_range
    case SYS_copy_file_range:
#endif
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_unlink:
    case SYS_rename:
    case SYS_mkdir:
    case SYS_rmdir:
#endif
    case SYS_openat:
#ifdef SYS_openat2
    case SYS_openat2:
#endif
    case SYS_close:
    case SYS_fstat:
    case SYS_newfstatat:
#ifdef SYS_statx
    case SYS_statx:
#endif
    case SYS_getdents64:
    case SYS_unlinkat:
    case SYS_renameat2:
    case SYS_mkdirat:
    case SYS_io_getevents:
        return STATE_DISK;
    case SYS_sched_yield:
        return STATE_RUNNING;
    default:
        return STATE_UNKNOWN;
    }
}

enum thread_activity thread_activity_now(thread_files *files)
{
    char text[256];
    ssize_t n = read_task_file(files, &files->syscall_slot, "syscall", &no_syscall_file, text, sizeof text);
    if (n <= 0) {
        return STATE_UNKNOWN;
    }
    if (text[0] == 'r') { /* "running" */
        return STATE_RUNNING;
    }
    char *rest;
    long number = strtol(text, &rest, 10);
    if (rest == text) {
        return STATE_UNKNOWN;
    }
    if (number < 0) {
        return STATE_DISK; /* blocked outside of a system call: a page that has to be read */
    }
    unsigned long first = strtoul(rest, &rest, 16);
    return classify(number, first, strtoul(rest, NULL, 16));
}

uint64_t thread_core_wait_ns(thread_files *files)
{
    char text[128];
    ssize_t n = read_task_file(files, &files->schedstat_slot, "schedstat", &no_schedstat_file, text, sizeof text);
    if (n <= 0) {
        return 0;
    }
    char *rest;
    strtoull(text, &rest, 10);
    return strtoull(rest, NULL, 10);
}

int thread_core(pid_t tid)
{
    char text[1024];
    int fd = open_task_file(tid, "stat");
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    const char *at = strrchr(text, ')'); /* ends the second field, a name, which may have blanks and brackets */
    for (int field = 2; at != NULL && field < PROCESSOR_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    return at ? (int)strtol(at + 1, NULL, 10) : -1;
}

/* Threads are links of the folder. It is kept open, as to find it anew takes twice as long; the same answer says whether
 * its descriptor is still ours. */
uint64_t threads_listed(void)
{
    struct stat info;
    prepare_kept();
    const kept_file *list = list_slot >= 0 ? &kept[list_slot] : NULL;
    if (list == NULL || fstat(list->fd, &info) != 0 || info.st_dev != list->device || info.st_ino != list->inode) {
        int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        release(&list_slot);
        if (fd < 0) {
            return 0;
        }
        bool known = fstat(fd, &info) == 0;
        list_slot = keep(fd);
        close(fd);
        if (!known) {
            return 0;
        }
    }
    return info.st_nlink > 2 ? info.st_nlink - 2 : 0;
}
