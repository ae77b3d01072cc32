"""Time that a thread is blocked inside C++ on communication that it launched itself.

DDP's reducer posts its buckets during backward and waits for them in C++ when the graph is done; some helpers of
``torch.distributed`` (``_broadcast_coalesced``) post and wait within one C++ call. No Python sees these waits, but
everything to reconstruct them can be had: the thread waits for its works in the order of their posts, each completion
is seen by a callback together with the thread's CPU clock, and the engine's final callbacks tell when the graph was
done and when the reducer was through.
"""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class Post:
    """One post whose completion C++ may wait for. Times in ns, by the two clocks of the posting thread."""

    __slots__ = ("cpu_at_done", "cpu_at_exit", "done", "enter", "event", "exit", "key", "pending", "waited")

    def __init__(self, event: int, enter: int) -> None:
        self.event = event
        self.enter = enter
        self.exit = enter
        self.cpu_at_exit = 0
        self.done = 0
        """0 while it is not complete."""
        self.cpu_at_done = 0
        self.waited = False
        """A Python ``wait`` has seen to it."""
        self.key = 0
        self.pending: Any = None


class Wait:
    """A wait that was reconstructed: the thread was blocked on ``post`` from ``enter`` to ``exit`` (ns)."""

    __slots__ = ("cpu_enter", "cpu_inside", "enter", "exit", "post")

    def __init__(self, post: Post, enter: int, exit: int, cpu_enter: int, cpu_inside: int) -> None:
        self.post = post
        self.enter = enter
        self.exit = exit
        self.cpu_enter = cpu_enter
        self.cpu_inside = cpu_inside


def reconstruct_waits(posts: Sequence[Post], begin: int, cpu_at_begin: int, end: int, cpu_at_end: int) -> list[Wait]:
    """When the thread was blocked on each of ``posts`` between ``begin`` and ``end``.

    ``posts`` are in the order of posting, which is the order in which C++ waits for them. A wait ends with the
    completion of its work. It begins when the wait before it has ended and the thread has nothing else to do: the
    thread's CPU clock tells how much it still worked on since then, and it cannot have waited for a work before the
    last post that it made while that work was under way. Waits do not overlap each other nor posts; a work that
    was complete before its turn has none.

    ``begin`` and ``end`` bound the stretch in which the thread can have waited; clocks in ns.
    """
    waits = []
    now, cpu = begin, cpu_at_begin
    for post in posts:
        if post.waited:
            continue
        done, cpu_at_done = post.done, post.cpu_at_done
        if not done or done > end:
            # Its callback has yet to run, though C++ went on; so it was complete by then.
            done, cpu_at_done = end, cpu_at_end
        for other in posts:
            if other.enter < done and other.exit > now:
                now, cpu = other.exit, other.cpu_at_exit
        if done <= now:
            continue
        worked = min(max(cpu_at_done - cpu, 0), done - now)
        enter = now + worked
        if done > enter:
            waits.append(Wait(post, enter, done, cpu + worked, 0))
        now, cpu = done, max(cpu_at_done, cpu)
    return waits


class Scope:
    """Collects the posts that one thread makes in one backward pass, or in one call into C++."""

    def __init__(self, now: Callable[[], int], thread_cpu: Callable[[], int]) -> None:
        self._now = now
        self._thread_cpu = thread_cpu
        self.thread = threading.get_ident()
        self.clock = time.pthread_getcpuclockid(self.thread)
        self.posts: list[Post] = []
        self.begin = 0
        """When waits can begin, 0 while that has not been seen."""
        self.cpu_at_begin = 0

    def mark_begin(self) -> None:
        """From here on the thread has nothing to do but to wait."""
        if threading.get_ident() == self.thread:
            self.begin = self._now()
            self.cpu_at_begin = self._thread_cpu()

    def completion(self, post: Post, done: Callable[[int], Any]) -> Callable[[Any], None]:
        """A callback for the future of ``post``'s work, to be run by whichever thread completes it."""

        def completed(_: Any) -> None:
            try:
                post.cpu_at_done = time.clock_gettime_ns(self.clock)
                post.done = self._now()
            except OSError:  # the thread has ended
                pass
            try:
                done(post.event)
            except Exception:
                pass

        return completed

    def waits(self) -> list[Wait]:
        """The waits until now. Empty if the end is seen by another thread than the posts."""
        if not self.posts or threading.get_ident() != self.thread or not self.begin:
            return []
        return reconstruct_waits(self.posts, self.begin, self.cpu_at_begin, self._now(), self._thread_cpu())
