"""Whether processes that others wait for are at work: slow is not stuck.

What is looked at shows in the records and in ``/proc``: functions that a thread is seen in, bytes that a process reads
and writes, the CPU time of programs that it started. A loop that never ends is in few functions and writes nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from scalana.live.kernel_files import text_of
from scalana.live.now import Moment, RankNow

_FUNCTIONS = 6
"""Innermost functions in which a thread at work is seen: a loop that waits or repeats itself is in one or two."""
_BYTES_PER_S = 256 << 10
"""Far more than its record takes."""
_CPU_SHARE = 0.05
"""Of a core: where cores are busy, a program gets little of one; one that waits takes next to nothing."""


class Movement:
    """What the processes of a run did between two looks."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}

    def look(self, moment: Moment, seconds: float) -> bool:
        """Whether a process that others wait for moves. ``seconds`` is how long ago the last look was."""
        awaited = [one for one in (*moment.ranks, *moment.helpers) if one.state in ("running", "asleep", "silent")]
        here = [one.pid for one in awaited if one.host == socket.gethostname() and one.pid]
        recorded = {one.pid for one in (*moment.ranks, *moment.helpers)}
        now = {pid: (_bytes(pid), _started_cpu_s(pid, recorded)) for pid in here}
        before, self._before = self._before, now
        moved = any(_moved(now[pid], before[pid], seconds) for pid in now if pid in before)
        return moved or any(_works(one) for one in awaited)


def _moved(now: tuple[float, float], before: tuple[float, float], seconds: float) -> bool:
    return now[0] - before[0] > _BYTES_PER_S * seconds or now[1] - before[1] > _CPU_SHARE * seconds


def _works(one: RankNow) -> bool:
    return one.functions >= _FUNCTIONS


def _bytes(pid: int) -> float:
    """Bytes that a process has read and written."""
    words = text_of(f"/proc/{pid}/io").split()
    return float(sum(int(value) for key, value in zip(words[::2], words[1::2], strict=False) if key in _IO))


_IO = ("rchar:", "wchar:")


def _started_cpu_s(pid: int, recorded: Iterable[int]) -> float:
    """CPU seconds of the programs that a process has started and that are not recorded, such as compilers."""
    total, waiting = 0.0, _children(pid)
    while waiting:
        child = waiting.pop()
        if child not in recorded:
            fields = text_of(f"/proc/{child}/stat").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if len(fields) > 14 else 0.0
            waiting += _children(child)
    return total


def _children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for task in tasks for child in text_of(f"/proc/{pid}/task/{task}/children").split()]
