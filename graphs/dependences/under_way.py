"""Remote calls that were under way in the end: who has to give what a process still waits for.

A call that was taken is with the process that took it, until that replies. One that nobody has taken waits for the one
process that can take it, where the caller knows that (a method of an actor); else for any that is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.readers.columns.gather import Gathered
from scalana.runtime.operations import BY_NAME

AT_ONCE_S = 1.0
"""Who waits for a result has it by then."""
_SUBMIT, _TAKE, _REPLY = (BY_NAME[name].code for name in ("submit", "take", "reply"))


@dataclass(frozen=True, slots=True)
class Awaited:
    """What the result of one or several remote calls waits for."""

    ranks: tuple[int, ...] = ()
    """Those that have such a call in hand, or are the only ones that can take it."""
    is_untaken: bool = False
    """Whether nobody has begun with it, and any process may that is free."""
    is_unended: bool = False
    """Whether it was given long before, as by a process whose work is done: it is the end of that one which lacks."""


NOBODY = Awaited()


class CallsUnderWay:
    """The remote calls of a run that nobody has replied to."""

    def __init__(self, data: Gathered) -> None:
        self._data = data
        events, known = data.events, data.events.seq > 0
        done = np.unique(events.seq[known & (events.operation == _REPLY)])
        self._submitted, self._taken = (
            np.flatnonzero(known & (events.operation == operation) & ~np.isin(events.seq, done))
            for operation in (_SUBMIT, _TAKE)
        )
        self._replied = np.flatnonzero(known & (events.operation == _REPLY))
        self._actors = {
            record.meta["made_as"]: int(rank)
            for record, rank, is_own in zip(data.records, data.rank, data.is_own, strict=True)
            if is_own and "made_as" in record.meta
        }

    def awaited(self, row: int) -> Awaited:
        """Who has to give what an event waits for, the wait for a result; where it does not say for which, that of any
        call of its process."""
        events = self._data.events
        rows = self._submitted
        if events.seq[row] > 0:
            rows = rows[events.seq[rows] == events.seq[row]]
        else:
            rows = rows[events.process[rows] == events.process[row]]
        found = [self._giver(one) for one in rows.tolist()]
        ranks = tuple(dict.fromkeys(rank for rank in found if rank is not None))
        return Awaited(ranks, bool(found) and not ranks) if found else self._unended(row)

    def _unended(self, row: int) -> Awaited:
        """Who has given what an event waits for, and that was not all that it waits for."""
        events = self._data.events
        given = self._replied[events.seq[self._replied] == events.seq[row]]
        given = given[events.exit_ns[given] < events.exit_ns[row] - round(1e9 * AT_ONCE_S)]
        ranks = tuple(dict.fromkeys(self._data.rank[events.process[given]].tolist()))
        return Awaited(ranks, is_unended=bool(ranks))

    def _giver(self, row: int) -> int | None:
        """Who has a submitted call in hand, or is the one to take it; None where it may be anybody."""
        events, data = self._data.events, self._data
        takers = self._taken[events.seq[self._taken] == events.seq[row]]
        if len(takers):
            return int(data.rank[events.process[takers[-1]]])
        record = data.records[int(events.process[row])]
        return self._actors.get(record.meta.get(f"callee {int(events.tag[row])}", ""))
