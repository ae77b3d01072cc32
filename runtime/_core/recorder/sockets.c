#include "recorder/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clocks.h"

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif
#define KERNEL_TCP_INFO 11 /* TCP_INFO, of which the header may be older than the kernel */

#define MOST_DESCRIPTORS 65536
#define GAP 256 /* so many closed descriptors in a row are the last */
#define PAIRS 1024u
#define LINE 192u
#define LOOK_PART UINT64_C(1000)
#define WRITE_EVERY_NS UINT64_C(5000000000)
#define WRITE_PART 4u /* of the time since the first look, which bounds how often all is written */

/* As the kernel fills it in, from 4.10 on: linux/tcp.h, struct tcp_info. */
typedef struct {
    uint8_t state[7];
    uint8_t rate_is_limited; /* lowest bit: there was too little to send for the delivery rate to be more */
    uint32_t until_retransmissions[24];
    uint64_t pacing_rate, largest_pacing_rate;
    uint64_t bytes_acked, bytes_received;
    uint32_t segments[2], not_sent, least_rtt_us, data_segments[2];
    uint64_t delivery_rate;
    uint64_t busy_us, limited_by_receiver_us, limited_by_buffer_us;
    uint32_t delivered[2];
    uint64_t bytes_sent, bytes_sent_again; /* from 4.19 on */
} tcp_counters;
#define NEEDED offsetof(tcp_counters, limited_by_buffer_us)

typedef struct {
    struct in6_addr own, other;
    uint64_t bytes, busy_us, longest_us, rate, again;
    bool rate_is_of_link; /* not of how little there was to send */
} pair_row;

/* What is known of the socket behind a descriptor. */
typedef struct {
    uint64_t cookie; /* the kernel's name for it, never used again; 0 for none */
    uint64_t bytes, busy_us, again;
    uint32_t pair; /* row + 1; 0 where it does not count */
} socket_row;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static socket_row *sockets;
static pair_row *pairs;
static size_t capacity, pair_count;
static bool changed;
static uint64_t next_look_ns, began_ns, written_ns;

static void forget(void)
{
    free(sockets);
    free(pairs);
    sockets = NULL;
    pairs = NULL;
    capacity = pair_count = 0;
    changed = false;
    next_look_ns = began_ns = written_ns = 0;
}

void sockets_forget(void)
{
    pthread_mutex_lock(&lock);
    forget();
    pthread_mutex_unlock(&lock);
}

void sockets_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    forget();
}

static bool is_loopback(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

/* An address of either family, as one of IPv6. */
static bool address_of(int fd, bool of_peer, struct in6_addr *address)
{
    struct sockaddr_storage any;
    socklen_t size = sizeof any;
    if ((of_peer ? getpeername : getsockname)(fd, (struct sockaddr *)&any, &size) != 0) {
        return false;
    }
    if (any.ss_family == AF_INET6) {
        *address = ((struct sockaddr_in6 *)&any)->sin6_addr;
        return true;
    }
    memset(address, 0, sizeof *address);
    address->s6_addr[10] = address->s6_addr[11] = 0xff;
    memcpy(address->s6_addr + 12, &((struct sockaddr_in *)&any)->sin_addr, 4);
    return any.ss_family == AF_INET;
}

/* Row + 1 of the pair that a socket connects; 0 where that is one host, or not known. */
static uint32_t pair_of(int fd)
{
    struct in6_addr own, other;
    if (!address_of(fd, false, &own) || !address_of(fd, true, &other) || is_loopback(&own) ||
        memcmp(&own, &other, sizeof own) == 0) {
        return 0;
    }
    for (size_t i = 0; i < pair_count; i++) {
        if (memcmp(&pairs[i].own, &own, sizeof own) == 0 && memcmp(&pairs[i].other, &other, sizeof other) == 0) {
            return (uint32_t)i + 1;
        }
    }
    if (pairs == NULL) {
        pairs = calloc(PAIRS, sizeof *pairs);
    }
    if (pairs == NULL || pair_count == PAIRS) {
        return 0;
    }
    pairs[pair_count++] = (pair_row){.own = own, .other = other};
    return (uint32_t)pair_count;
}

static bool has_row(size_t fd)
{
    if (fd < capacity) {
        return true;
    }
    size_t larger = capacity ? capacity * 2 : 64;
    while (larger <= fd) {
        larger *= 2;
    }
    socket_row *grown = realloc(sockets, larger * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    memset(grown + capacity, 0, (larger - capacity) * sizeof *grown);
    sockets = grown;
    capacity = larger;
    return true;
}

static void add_to_pair(pair_row *p, socket_row *s, const tcp_counters *now, bool counts)
{
    uint64_t busy_us = now->busy_us > now->limited_by_receiver_us ? now->busy_us - now->limited_by_receiver_us : 0;
    if (counts && now->bytes_acked > s->bytes) {
        p->bytes += now->bytes_acked - s->bytes;
        p->busy_us += busy_us > s->busy_us ? busy_us - s->busy_us : 0;
        p->again += now->bytes_sent_again - s->again;
        if (busy_us >= p->longest_us) {
            p->longest_us = busy_us;
            bool is_of_link = (now->rate_is_limited & 1) == 0;
            p->rate = is_of_link || !p->rate_is_of_link ? now->delivery_rate : p->rate;
            p->rate_is_of_link = p->rate_is_of_link || is_of_link;
        }
        changed = true;
    }
    s->bytes = now->bytes_acked;
    s->busy_us = busy_us > s->busy_us ? busy_us : s->busy_us;
    s->again = now->bytes_sent_again;
}

/* False where there is no such descriptor. */
static bool look_at(int fd, bool counts)
{
    tcp_counters now = {0};
    socklen_t size = sizeof now;
    if (getsockopt(fd, IPPROTO_TCP, KERNEL_TCP_INFO, &now, &size) != 0) {
        return errno != EBADF;
    }
    uint64_t cookie = 0;
    socklen_t cookie_size = sizeof cookie;
    if (size < NEEDED || now.bytes_acked == 0 || !has_row((size_t)fd) ||
        getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &cookie_size) != 0) {
        return true;
    }
    socket_row *s = &sockets[fd];
    if (s->cookie != cookie) {
        *s = (socket_row){.cookie = cookie, .pair = pair_of(fd)};
    }
    if (s->pair) {
        add_to_pair(&pairs[s->pair - 1], s, &now, counts);
    }
    return true;
}

static void look_at_all(bool counts)
{
    int before = errno;
    for (int fd = 0, closed = 0; fd < MOST_DESCRIPTORS && closed < GAP; fd++) {
        closed = look_at(fd, counts) ? 0 : closed + 1;
    }
    errno = before;
}

void sockets_begin(void)
{
    pthread_mutex_lock(&lock);
    forget();
    look_at_all(false);
    began_ns = written_ns = clock_wall_ns();
    pthread_mutex_unlock(&lock);
}

void sockets_look(void)
{
    pthread_mutex_lock(&lock);
    uint64_t now_ns = clock_wall_ns();
    if (began_ns != 0 && now_ns >= next_look_ns) {
        uint64_t begin_ns = clock_own_cpu_ns();
        look_at_all(true);
        next_look_ns = now_ns + LOOK_PART * (clock_own_cpu_ns() - begin_ns);
    }
    pthread_mutex_unlock(&lock);
}

bool sockets_due(uint64_t now_ns)
{
    pthread_mutex_lock(&lock);
    uint64_t part_ns = (now_ns - began_ns) / WRITE_PART;
    bool due = changed && now_ns - written_ns >= (part_ns > WRITE_EVERY_NS ? part_ns : WRITE_EVERY_NS);
    pthread_mutex_unlock(&lock);
    return due;
}

static int write_address(const struct in6_addr *a, char *text, size_t room)
{
    bool is_v4 = IN6_IS_ADDR_V4MAPPED(a);
    const void *bytes = is_v4 ? (const void *)(a->s6_addr + 12) : (const void *)a;
    return inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, text, (socklen_t)room) ? (int)strlen(text) : 0;
}

char *sockets_text(uint64_t now_ns, size_t *size)
{
    pthread_mutex_lock(&lock);
    char *text = malloc(pair_count * LINE + 1);
    char own[INET6_ADDRSTRLEN] = "", other[INET6_ADDRSTRLEN] = "";
    *size = 0;
    for (size_t i = 0; text && i < pair_count; i++) {
        const pair_row *p = &pairs[i];
        if (p->bytes && write_address(&p->own, own, sizeof own) && write_address(&p->other, other, sizeof other)) {
            int n = snprintf(text + *size, LINE,
                             "%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", own, other,
                             p->bytes, p->busy_us, p->longest_us, p->rate, p->again);
            *size += n > 0 && n < (int)LINE ? (size_t)n : 0;
        }
    }
    written_ns = now_ns;
    changed = false;
    pthread_mutex_unlock(&lock);
    return text;
}
