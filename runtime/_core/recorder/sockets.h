/* What the process's own TCP sockets moved to other hosts, by what the kernel counts of each.
 *
 * Looked at from outside, by descriptor: nothing is opened, closed or changed, and no call of the program is watched.
 * Safe to call from any thread at any time; nobody waits for a disk in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forgets all, and looks at what sockets have moved already, which does not count. */
void sockets_begin(void);
void sockets_forget(void);
/* In the child after fork, which has one thread, and no recording. */
void sockets_after_fork(void);
/* Looks at all sockets, unless it was called so shortly before that looking would take more than a thousandth of the
 * time. */
void sockets_look(void);
/* Whether anything was counted that was not yet written, and enough time went by since that was. */
bool sockets_due(uint64_t now_ns);
/* What was counted, as text that the caller frees; NULL without memory. A line for each pair of addresses: own address,
 * that of the other end, bytes that it acknowledged, us in which bytes were on their way and the other end would have
 * taken them, those of the socket that this took longest of, bytes a second at which that one's were delivered lately,
 * and bytes that were sent again. */
char *sockets_text(uint64_t now_ns, size_t *size);
