"""The end of all processes that a job has started, where the job itself ends without them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence

_TO_END_S = 5.0
"""So long a process may take to end after it was asked to, before it is killed."""


@contextlib.contextmanager
def held(pid: int) -> Iterator[Sequence[int]]:
    """Descriptors of the processes below one: no other process is meant that gets a number of theirs later."""
    from scalana.live.processes import below  # here: a job waits for all that is loaded before it

    found: list[int] = []
    try:
        for child in below(pid):
            with contextlib.suppress(OSError, AttributeError):  # an old kernel, or a Python that was built on one
                found.append(os.pidfd_open(child))
        yield found
    finally:
        for one in found:
            os.close(one)


def end(processes: Sequence[int]) -> None:
    """Ask processes to end, and kill those that do not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + _TO_END_S
        for one in processes:
            with contextlib.suppress(OSError):  # it has ended
                signal.pidfd_send_signal(one, number)
        if not _are_left(processes, until_s):
            return


def _are_left(processes: Sequence[int], until_s: float) -> bool:
    """Whether some processes have not ended by then; a descriptor can be read once its process has."""
    left = set(processes)
    waits = select.poll()
    for one in left:
        waits.register(one, select.POLLIN)
    while left and (rest_s := until_s - time.monotonic()) > 0.0:
        for one, _ in waits.poll(1000.0 * rest_s):
            waits.unregister(one)
            left.discard(one)
    return bool(left)
