"""Whether processes that others wait for are at work: slow is not stuck.

What is looked at shows in the records and in ``/proc``: functions that a thread is seen in, bytes that a process and
the programs that it started read and write, the CPU time of these programs. A loop that never ends is in few functions
and writes nothing.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scalana.live.kernel_files import text_of
from scalana.live.now import Moment, RankNow
from scalana.live.processes import below

_FUNCTIONS = 6
"""Innermost functions in which a thread at work is seen: a loop that waits or repeats itself is in one or two."""
_BYTES_PER_S = 256 << 10
"""Far more than its record takes."""
_CPU_SHARE = 0.02
"""Of a core: where cores are busy, a program gets little of one; one that waits takes next to nothing."""
_LASTING_S = 10.0
"""So long after it was seen to move a process still counts as moving: what it has finished, or a program that has
ended, is in no record yet, and pauses between two pieces of work are short."""
_OF_ALL, _OF_ENDED = slice(11, 15), slice(13, 15)
"""Fields of ``/proc/PID/stat`` behind the name: CPU time of a process and of its children that have ended, and the
latter alone."""
_IO = ("rchar:", "wchar:")
_DEBUGGERS = ("/pdb.py", "/bdb.py", "/debugpy/", "/pydevd")


@dataclass(frozen=True, slots=True)
class Doing:
    """What a process has done until a moment, and the programs that it started with it."""

    functions: int = 0
    """Different functions that its main thread was seen in lately."""
    changed_s: float | None = None
    """When it was seen last in another one than at the end; None where this host's clock does not say it."""
    bytes: float = 0.0
    """Read and written since the start."""
    started_cpu_s: float = 0.0
    """CPU seconds of the programs that it started, of those that have ended, too."""
    is_debugged: bool = False
    """Whether somebody holds it in a debugger."""


class Movement:
    """What the processes of a run did between looks."""

    def __init__(self) -> None:
        self._before: Mapping[int, Doing] = {}
        self._looked_s: float | None = None
        self._moved_s = -float("inf")
        self.is_debugged = False
        """Whether one of those that others wait for is held in a debugger."""

    def look(self, moment: Moment) -> bool:
        """Whether a process that others wait for moves; as long as there was but one look, it may."""
        awaited = [one for one in (*moment.ranks, *moment.helpers) if one.state in ("running", "asleep", "silent")]
        recorded = {one.pid for one in (*moment.ranks, *moment.helpers)}
        return self.take(time.monotonic(), {one.pid: doing_of(one, recorded) for one in awaited})

    def take(self, now_s: float, doing: Mapping[int, Doing]) -> bool:
        """The same, of what the processes that others wait for have done until a moment, by their numbers."""
        self.is_debugged = any(one.is_debugged for one in doing.values())
        first, seconds = self._looked_s is None, now_s - (self._looked_s or 0.0)
        for pid, one in doing.items():
            moved_s = _moved_s(one, self._before.get(pid), now_s, seconds)
            self._moved_s = max(self._moved_s, moved_s if moved_s is not None else -float("inf"))
        self._before, self._looked_s = doing, now_s
        return first or now_s - self._moved_s < _LASTING_S


def _moved_s(now: Doing, before: Doing | None, now_s: float, seconds: float) -> float | None:
    """When a process moved last, as far as a look at a moment shows, ``seconds`` after the one before; None for not."""
    if before is not None:
        more_bytes, more_cpu_s = now.bytes - before.bytes, now.started_cpu_s - before.started_cpu_s
        if more_bytes > _BYTES_PER_S * seconds or more_cpu_s > _CPU_SHARE * seconds:
            return now_s
    if now.functions >= _FUNCTIONS:
        return now_s if now.changed_s is None else min(now.changed_s, now_s)
    return None


def doing_of(one: RankNow, recorded: Collection[int]) -> Doing:
    """What a process has done; of another host, what its record says alone."""
    if one.host != socket.gethostname() or not one.pid:
        return Doing(one.functions)
    started = list(below(one.pid, recorded))
    return Doing(
        functions=one.functions,
        changed_s=one.changed_ns * 1e-9 or None,
        bytes=sum(map(_bytes, (one.pid, *started))),
        started_cpu_s=_cpu_s(one.pid, _OF_ENDED) + sum(_cpu_s(pid, _OF_ALL) for pid in started),
        is_debugged=_is_traced(one.pid) or any(name in file for file, _, _ in one.stack.frames for name in _DEBUGGERS),
    )


def _bytes(pid: int) -> float:
    """Bytes that a process has read and written."""
    words = text_of(f"/proc/{pid}/io").split()
    return float(sum(int(value) for key, value in zip(words[::2], words[1::2], strict=False) if key in _IO))


def _cpu_s(pid: int, fields: slice) -> float:
    """CPU seconds of a process: those in some fields of what the kernel says."""
    words = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, words[fields])) / os.sysconf("SC_CLK_TCK") if len(words) >= fields.stop else 0.0


def _is_traced(pid: int) -> bool:
    lines = text_of(f"/proc/{pid}/status").splitlines()
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)
