"""How communication is written that a trace shows on the host: as a call that blocks, or as one that begins and a wait.

What a device carries out, the host only begins: waiting in it is judged by the device's spans. What a thread of a
library carries out (gloo's) is waited for by the thread that began it, which a trace does not show as such: where that
thread begins nothing more before the end, it waited.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scalana.importers.collectives import Call
from scalana.importers.rank_calls import Host
from scalana.importers.trace import Kind
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_BLOCKING, EVENT_COMPLETION, EVENT_POST
from scalana.runtime.record.writer import RecordWriter

_NOTICED_NS = 10_000
"""A wait that is shorter is none."""


class Rank(Protocol):
    """What is known of the rank whose calls are written."""

    thread: dict[int, int]

    def moment(self, time_ns: int) -> int:
        """A time on the axis of the records."""
        ...

    def path_of_call(self, row: int) -> int:
        """The call path of an event of the host."""
        ...


class Waits:
    """When threads of the program were busy."""

    def __init__(self, host: Host, calls: list[Call]) -> None:
        self._host = host
        self._starts, self._ends = {}, {}
        busy = (host.kind == Kind.OPERATOR) | (host.kind == Kind.RUNTIME) | (host.kind == Kind.ANNOTATION)
        for track in {int(host.track[call.host]) for call in calls if call.host >= 0}:
            rows = host.order.get(track, np.zeros(0, np.int64))
            rows = rows[busy[rows]]
            self._starts[track] = np.sort(host.start_ns[rows])
            outer = rows[(host.kind[rows] == Kind.OPERATOR)]
            self._ends[track] = outer[np.argsort(host.start_ns[outer])]
        self.waited_until: dict[int, int] = {}

    def next_start(self, track: int, after_ns: int) -> int:
        """When a thread begins something after a moment; far away if never."""
        starts = self._starts[track]
        at = int(np.searchsorted(starts, after_ns))
        return int(starts[at]) if at < len(starts) else 1 << 62

    def idle_before(self, track: int, moment_ns: int) -> int:
        """Since when a thread has been in no operator at a moment; the moment itself if it is in one."""
        host, rows = self._host, self._ends[track]
        at = int(np.searchsorted(host.start_ns[rows], moment_ns))
        latest = int(host.end_ns[rows[:at]].max(initial=0))
        return min(latest, moment_ns)


def write_call(writer: RecordWriter, rank: Rank, waits: Waits, call: Call, event: int, group: int) -> bool:
    """Write one call, and the wait for it if there is one; whether it was written."""
    host, row = waits._host, call.host
    on_device = int(host.kind[call.device]) == Kind.KERNEL
    track = int(host.track[row]) if row >= 0 else -1
    thread, path = rank.thread.get(track, 0), rank.path_of_call(row)
    begin, end = (int(host.start_ns[row]), int(host.end_ns[row])) if row >= 0 else (call.start_ns, call.start_ns)
    blocks = not on_device and row >= 0 and waits.next_start(track, end) >= call.end_ns
    leave = max(end, call.end_ns) if blocks else end
    writer.event(
        event,
        call.operation,
        rank.moment(begin),
        leave - begin,
        thread=thread,
        group=group,
        seq=call.seq,
        peer=call.peer,
        nbytes=call.nbytes,
        flags=EVENT_BLOCKING if blocks else EVENT_POST,
        cpu_ns=-1,
        path=path,
    )
    if blocks:
        waits.waited_until[track] = leave
        return True
    writer.done(event, rank.moment(call.end_ns))
    if on_device or row < 0:
        return True
    since = max(waits.idle_before(track, call.end_ns), waits.waited_until.get(track, 0), end)
    if call.end_ns - since >= _NOTICED_NS:
        waits.waited_until[track] = call.end_ns
        writer.event(
            event + (1 << 40),
            BY_NAME["wait"].code,
            rank.moment(since),
            call.end_ns - since,
            thread=thread,
            group=group,
            flags=EVENT_COMPLETION,
            cpu_ns=-1,
            path=path,
            completes=event,
        )
    return True
