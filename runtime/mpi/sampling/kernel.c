#include "sampling/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FIRST_DESCRIPTOR 512 /* out of the way of a program that counts on the lowest free one */
#define NO_GROUP (-1)
#define NEVER_OPEN INT32_MAX /* a descriptor that no file has */

/* perf's numbers of registers on x86 (asm/perf_regs.h). */
#define PERF_BP 6
#define PERF_SP 7
#define PERF_IP 8

/* A PERF_RECORD_SAMPLE up to the stack: time, ABI of the registers, BP, SP, IP (by number), size of the stack. */
typedef struct {
    uint64_t time_ns, abi, bp, sp, ip, stack_bytes;
} sample_head;

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t ring_bytes(void)
{
    return KERNEL_RING_PAGES * page_bytes();
}

static int open_event(pid_t tid, uint64_t period_ns, uint32_t stack_bytes, int group)
{
    struct perf_event_attr a;
    memset(&a, 0, sizeof a);
    a.size = sizeof a;
    a.type = PERF_TYPE_SOFTWARE;
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = period_ns;
    a.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    a.sample_regs_user = 1u << PERF_BP | 1u << PERF_SP | 1u << PERF_IP;
    a.sample_stack_user = stack_bytes;
    a.exclude_hv = 1;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    /* In system calls and page faults too, at the user's registers, where that is allowed. */
    int fd = (int)syscall(SYS_perf_event_open, &a, tid, -1, group, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        a.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &a, tid, -1, group, PERF_FLAG_FD_CLOEXEC);
    }
    if (fd >= 0) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
        if (high >= 0) {
            close(fd);
            fd = high;
        }
    }
    return fd;
}

/* The kernel asks who may before it asks for the group. To open the first event of a machine takes 5 to 20 milliseconds:
 * all cores have to be told. */
bool kernel_samples_allowed(uint64_t period_ns)
{
    return open_event(0, period_ns, RAW_STACK_BYTES, NEVER_OPEN) < 0 && errno == EBADF;
}

/* By system calls proper: MPI libraries put hooks of their own into mmap and munmap, which crash in a forked child. */
bool kernel_ring_open(kernel_ring *ring, pid_t tid, uint64_t period_ns, uint32_t stack_bytes)
{
    int fd = open_event(tid, period_ns, stack_bytes, NO_GROUP);
    void *pages = MAP_FAILED;
    if (fd >= 0) {
        pages = (void *)syscall(SYS_mmap, NULL, page_bytes() + ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (pages == MAP_FAILED) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    *ring = (kernel_ring){fd, pages, period_ns};
    return true;
}

void kernel_ring_close(kernel_ring *ring)
{
    if (ring->ring) {
        syscall(SYS_munmap, ring->ring, page_bytes() + ring_bytes());
        close(ring->fd);
    }
    *ring = (kernel_ring){-1, NULL, 0};
}

static void copy_out(const kernel_ring *ring, uint64_t at, void *to, size_t size)
{
    const uint8_t *data = (const uint8_t *)ring->ring + page_bytes();
    size_t start = at & (ring_bytes() - 1);
    size_t first = size < ring_bytes() - start ? size : ring_bytes() - start;
    memcpy(to, data + start, first);
    memcpy((uint8_t *)to + first, data, size - first);
}

static bool read_record(const uint8_t *record, size_t size, raw_sample *sample)
{
    sample_head head;
    uint64_t filled = 0;
    if (size < sizeof head) {
        return false;
    }
    memcpy(&head, record, sizeof head);
    if (head.abi == PERF_SAMPLE_REGS_ABI_NONE || size < sizeof head + head.stack_bytes + (head.stack_bytes ? 8 : 0)) {
        return false;
    }
    if (head.stack_bytes) {
        memcpy(&filled, record + sizeof head + head.stack_bytes, sizeof filled);
    }
    *sample = (raw_sample){.time_ns = head.time_ns,
                           .pc = head.ip,
                           .sp = head.sp,
                           .fp = head.bp,
                           .asked = head.stack_bytes,
                           .size = filled < head.stack_bytes ? filled : head.stack_bytes,
                           .stack = record + sizeof head};
    return true;
}

bool kernel_ring_next(kernel_ring *ring, raw_sample *sample)
{
    static uint8_t record[RAW_STACK_BYTES + 256];
    struct perf_event_mmap_page *control = ring->ring;
    if (control == NULL) {
        return false;
    }
    uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE), tail = control->data_tail;
    bool found = false;
    while (tail < head && !found) {
        struct perf_event_header header;
        copy_out(ring, tail, &header, sizeof header);
        if (header.size < sizeof header) {
            tail = head;
            break;
        }
        size_t size = header.size - sizeof header;
        if (header.type == PERF_RECORD_SAMPLE && size <= sizeof record) {
            copy_out(ring, tail + sizeof header, record, size);
            found = read_record(record, size, sample);
            sample->cpu_ns = ring->period_ns;
        }
        tail += header.size;
    }
    __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
    return found;
}
