"""How communication is written that a trace shows on the host: as a call that blocks, or as one that begins and a wait.

What a device carries out, the host only begins: waiting in it is judged by the device's spans. What a thread of a
library carries out (gloo's) is waited for by the thread that began it, which a trace does not show as such: where that
thread begins nothing more before the end, it waited.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.importers.collectives import Call
from scalana.importers.rank_calls import Host
from scalana.importers.trace import Kind
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_BLOCKING, EVENT_COMPLETION, EVENT_POST
from scalana.runtime.record.writer import RecordWriter

_NOTICED_NS = 10_000
"""A wait that is shorter is none."""
_WOKEN_NS = 200_000
"""So long before the end that a thread of a library notes, the one that waits may be woken."""


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
    """When threads of the program were busy, and until when each has waited already."""

    def __init__(self, host: Host, calls: list[Call]) -> None:
        self.host = host
        self.until: dict[int, int] = {}
        self._busy: dict[int, tuple[IntArray, IntArray]] = {}
        busy = (host.kind == Kind.OPERATOR) | (host.kind == Kind.RUNTIME) | (host.kind == Kind.ANNOTATION)
        for track in {int(host.track[call.host]) for call in calls if call.host >= 0}:
            rows = host.order[track][busy[host.order[track]]]
            ends = np.where(host.kind[rows] == Kind.ANNOTATION, host.start_ns[rows], host.end_ns[rows])
            self._busy[track] = host.start_ns[rows], np.maximum.accumulate(ends)

    def before(self, track: int, begun_ns: int, end_ns: int) -> tuple[int, int]:
        """Where a thread began nothing, from when on and until when, up to the end of what it began at a moment.

        A thread that is woken may go on before the one that wakes it has noted the end.
        """
        starts, ends = self._busy[track]
        slack = max(_WOKEN_NS, (end_ns - begun_ns) // 20)
        at = int(np.searchsorted(starts, max(end_ns - slack, begun_ns + 1)))
        since = max(int(ends[at - 1]) if at else begun_ns, begun_ns)
        return since, min(int(starts[at]) if at < len(starts) else end_ns, end_ns)


def write_call(writer: RecordWriter, rank: Rank, waits: Waits, call: Call, event: int, group: int) -> bool:
    """Write one call, and the wait for it if there is one; whether it was written."""
    host, row = waits.host, call.host
    on_device = int(host.kind[call.device]) == Kind.KERNEL
    track = int(host.track[row]) if row >= 0 else -1
    thread, path = rank.thread.get(track, 0), rank.path_of_call(row)
    begin, end = (int(host.start_ns[row]), int(host.end_ns[row])) if row >= 0 else (call.start_ns, call.start_ns)
    blocks, since, leave = False, end, end
    if not on_device and row >= 0:
        since, until = waits.before(track, end, call.end_ns)
        blocks = since <= end
        leave = max(until, end) if blocks else end
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
        waits.until[track] = leave
        return True
    writer.done(event, rank.moment(call.end_ns))
    if on_device or row < 0:
        return True
    since = max(since, waits.until.get(track, 0))
    if until - since >= _NOTICED_NS:
        waits.until[track] = until
        writer.event(
            event + (1 << 40),
            BY_NAME["wait"].code,
            rank.moment(since),
            until - since,
            thread=thread,
            group=group,
            flags=EVENT_COMPLETION,
            cpu_ns=-1,
            path=path,
            completes=event,
        )
    return True
