"""What one rank did, as a thread of its own would have: computing one after the other, and calls in between.

In a table, communication runs on streams of its own, while the rank computes. A rank waits for it where it computes
nothing until it ends; what ends while the rank computes has cost it nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.importers.errors import TraceError
from scalana.importers.tables.operation_kinds import Role
from scalana.importers.tables.operations import Operations, Table

_LONG_AGO, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Call:
    """One communication call of a rank."""

    name: str
    """What the table calls it."""
    operation: int
    """Code in the table of communication operations."""
    group: int
    """Number of its group; that of all ranks for a message."""
    number: int
    """In its group, or in the channel of its message."""
    step: int
    posted_ns: int
    """When it was begun, ``enter_ns`` or earlier."""
    enter_ns: int
    exit_ns: int
    peer: int = -1
    tag: int = 0
    waits: bool = True
    """Whether the rank waits for it."""
    user: int = -1
    """Of a message that is received: the row of the action that needs it."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Computing of one rank, one after the other ``[rows]``."""

    row: IntArray
    """In the operations."""
    begin_ns: IntArray
    end_ns: IntArray

    def idle_since(self, time_ns: int) -> int | None:
        """Since when the rank has computed nothing at a moment; None where it computes."""
        at = int(np.searchsorted(self.begin_ns, time_ns, side="left")) - 1
        if at >= 0 and time_ns < self.end_ns[at]:
            return None
        return int(self.end_ns[at]) if at >= 0 else int(_LONG_AGO)


def one_after_the_other(operations: Operations, table: Table) -> Operations:
    """Operations in which every rank computes one thing at a time: what overlaps a little is cut.

    Raises:
        TraceError: a rank computes two things at once.
    """
    computes = np.array([kind.role in (Role.ACTION, Role.OWN) for kind in table.kinds], bool)
    acts = np.array([kind.role is Role.ACTION for kind in table.kinds], bool)[operations.kind]
    rows = np.flatnonzero(computes[operations.kind])
    if not len(rows):
        return operations
    begin, end, rank = operations.begin_ns[rows], operations.end_ns[rows], operations.rank[rows]
    # Each rank's times on an axis of its own, so that the latest end so far is that of the rank.
    length = int(end.max() - begin.min()) + 1
    before = np.maximum.accumulate(end - begin.min() + rank * length)
    before = np.concatenate((begin[:1], before[:-1] - rank[1:] * length + begin.min()))
    over = before - begin
    twice = np.flatnonzero((2 * over > np.maximum(end - begin, 1)) & acts[rows])
    twice = twice[acts[rows[np.maximum(twice - 1, 0)]]]
    if len(twice):
        raise TraceError(_at_once(operations, table, int(rows[twice[0] - 1]), int(rows[twice[0]])))
    begins, ends = operations.begin_ns.copy(), operations.end_ns.copy()
    begins[rows] = np.maximum(begin, before)
    ends[rows] = np.maximum(end, begins[rows])
    return replace(operations, begin_ns=begins, end_ns=ends)


def _at_once(operations: Operations, table: Table, one: int, other: int) -> str:
    names = [table.kinds[operations.kind[row]].name for row in (one, other)]
    return (
        f"{table.file}: rank {operations.rank[one]} computes two things at once, {names[0]} and {names[1]}, in step "
        f"{operations.step[one]}: is a file given twice, or is a duration in another unit than its column says?"
    )


def busy_of(operations: Operations, table: Table, rank: int) -> Busy:
    """The computing of one rank."""
    computes = np.array([kind.role in (Role.ACTION, Role.OWN) for kind in table.kinds], bool)
    first, end = np.searchsorted(operations.rank, [rank, rank + 1])
    rows = np.arange(first, end)
    rows = rows[computes[operations.kind[rows]]]
    return Busy(rows, operations.begin_ns[rows], operations.end_ns[rows])


def as_seen(call: Call, busy: Busy) -> Call:
    """A call that runs from ``posted_ns`` to ``exit_ns`` as the rank sees it: it waits from when it has nothing to
    compute until the end, and not at all where it computes then."""
    since = busy.idle_since(call.exit_ns)
    if since is None:
        return replace(call, enter_ns=call.posted_ns, exit_ns=call.posted_ns, waits=False)
    return replace(call, enter_ns=min(max(call.posted_ns, since), call.exit_ns))


def in_turn(calls: Iterable[Call]) -> list[Call]:
    """Calls of a rank one after the other: each is entered when the one before has been left."""
    now, found = int(_LONG_AGO), []
    for call in sorted(calls, key=lambda one: (one.exit_ns, one.enter_ns)):
        if not call.waits:
            found.append(call)
            continue
        enter = max(call.enter_ns, now)
        now = max(call.exit_ns, enter)
        found.append(replace(call, enter_ns=enter, exit_ns=now, posted_ns=min(call.posted_ns, enter)))
    return found
