"""What if: the run again, with some of its own time taken out (:mod:`~scalana.detectors.whatif.recurrence`).

Without changes the replay gives the measured times back exactly. Several changes are replayed side by side.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.wait_states import Dependencies, Rule, find_dependencies, last_arrivals_s
from scalana.detectors.thresholds.limits import CHANGES_AT_ONCE
from scalana.detectors.whatif.recurrence import MEETING, Changes, Run, replay
from scalana.graphs.arrays.shards import chunks, each
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import ROW, Timeline
from scalana.runtime.operations import BY_NAME, TAKING

_TAKE, _REPLY = (BY_NAME[name].code for name in ("take", "reply"))


@dataclass(frozen=True, slots=True)
class Change:
    """What is taken out of a run, in seconds, all at least 0; only where it is anything."""

    burst: IntArray
    """Bursts with less own work, ascending; numbered as in OwnWork ``[bursts that change]``."""
    removed_s: FloatArray
    """``[bursts that change]``"""
    earlier_s: FloatArray | None
    """How much earlier locations start ``[locations]``."""
    call: IntArray
    """Calls whose transfer takes less, ascending ``[calls that change]``."""
    shorter_s: FloatArray
    """``[calls that change]``"""

    @classmethod
    def of(
        cls, removed_s: FloatArray, earlier_s: FloatArray | None = None, shorter_s: FloatArray | None = None
    ) -> Change:
        """The same of own work by burst ``[bursts]``, head starts ``[locations]`` and transfers by call ``[calls]``."""
        burst = np.flatnonzero(removed_s)
        shorter_s = np.zeros(0) if shorter_s is None else shorter_s
        call = np.flatnonzero(shorter_s)
        return cls(burst, removed_s[burst], earlier_s, call, shorter_s[call])


@dataclass(slots=True)
class Replay:
    """A run prepared for replays. Make it once by :func:`prepare`; a replay is one pass over the calls."""

    timeline: Timeline
    pairs: Dependencies
    burst_s: FloatArray
    """Length of every burst, numbered as in OwnWork, without :attr:`waiting_s` ``[calls + locations]``."""
    waiting_s: FloatArray | None
    """What of every burst was waiting in unwritten calls; None where all were written ``[calls + locations]``."""
    last_s: FloatArray
    """When the last member of every instance came ``[instances]``."""
    _unchanged_s: FloatArray | None = None
    """When every location ends in a replay of the run as it was, once there was one ``[locations]``."""

    def ends_s(self, changes: Sequence[Change | None]) -> list[FloatArray]:
        """Replay the run with each of some changes, or as it was (None); returns when every location ends, each
        ``[locations]``."""
        some = [change for change in changes if change is not None]
        if self._unchanged_s is None and changes:  # asked for sooner or later: beside others it costs least
            *found, self._unchanged_s = self._ends_s([*some, None])
        else:
            found = self._ends_s(some)
        ends_s = iter(found)
        return [self.unchanged_s if change is None else next(ends_s) for change in changes]

    def _ends_s(self, changes: Sequence[Change | None]) -> list[FloatArray]:
        """The same, none of them known."""
        at_once = min(CHANGES_AT_ONCE, -(-len(changes) // (os.cpu_count() or 1)))
        return [end for _, _, ends in self._replayed(changes, max(at_once, 1)) for end in ends]

    @property
    def unchanged_s(self) -> FloatArray:
        """When every location ends in a replay of the run as it was ``[locations]``."""
        if self._unchanged_s is None:
            self.ends_s([None])
        assert self._unchanged_s is not None
        return self._unchanged_s

    def run_ends_s(self, changes: Sequence[Change]) -> tuple[float, list[float]]:
        """Return when the run ends as it was, and with each of some changes: when the last location does that is not
        merely there until it is ended by others; where all are, when the last has done what it was called for."""
        some, idle = _that_end(self.timeline)
        rest_s = np.where(idle, self.burst_s[len(self.timeline.calls) :], 0.0)[some]
        if self.waiting_s is None:  # a replay gives back what was measured
            measured_s = float((self.timeline.locations.end_s[some] - rest_s).max())
            return measured_s, [float((end[some] - rest_s).max()) for end in self.ends_s(changes)]
        measured_s, *mended = (float((end[some] - rest_s).max()) for end in self.ends_s([None, *changes]))
        return measured_s, mended

    def end_s(self, removed_s: FloatArray | None = None, *others: FloatArray | None) -> FloatArray:
        """Return when each location ends ``[locations]``, with what :meth:`Change.of` takes taken out."""
        return self.ends_s([None if removed_s is None else Change.of(removed_s, *others)])[0]

    def error(self) -> float:
        """How far the replay of the unchanged run is from the run: the most by which any location ends earlier or
        later, as a part of the run's length."""
        locations = self.timeline.locations
        length_s = float(locations.end_s.max(initial=0.0) - locations.start_s.min(initial=np.inf))
        if length_s <= 0.0:
            return 0.0
        return float(np.abs(self.unchanged_s - locations.end_s).max()) / length_s

    def times_s(self, change: Change) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Entry and exit of every call ``[calls]`` and the end of every location ``[locations]``."""
        ((enter, leave, (end,)),) = self._replayed([change], 1, exits=True)
        return enter.reshape(-1), leave.reshape(-1), end

    def _replayed(
        self, changes: Sequence[Change | None], at_once: int, exits: bool = False
    ) -> list[tuple[FloatArray, FloatArray, list[FloatArray]]]:
        """Replay some changes side by side, then the next. Returns of each of these passes entries and exits of
        all calls ``[calls, changes]``, if they are asked for, and the ends of all locations, each ``[locations]``."""
        timeline, count = self.timeline, len(self.timeline.calls)
        instances, locations = timeline.instances, timeline.locations
        calls, pairs = timeline.calls, self.pairs
        waiting_s = np.zeros(0) if self.waiting_s is None else self.waiting_s
        run = Run(
            calls.first, calls.enter_s, calls.exit_s, calls.location, calls.posts, pairs.earliest, calls.wait_first,
            pairs.rule, calls.waits, pairs.on, waiting_s, instances.first, instances.members, locations.rank,
        )  # fmt: skip

        def side_by_side(at: slice) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
            columns = at.stop - at.start
            # Memory comes in large pages where it is asked for here, and not by a loop.
            enter, leave = np.empty((count, columns)), np.empty((count if exits else 0, columns))
            end = replay(
                run,
                _side_by_side(changes[at], count),
                locations.start_s.copy(),
                np.stack([_starts(locations.start_s, change) for change in changes[at]], axis=1),
                self._meetings(),
                np.full((len(instances), columns), -np.inf),
                (enter, leave),
            )
            behind = [_last_bursts(self.burst_s[count:], change, count) for change in changes[at]]
            return (enter if exits else leave), leave, list(end.T + behind)

        return each(side_by_side, chunks(len(changes), at_once))

    def _meetings(self) -> npt.NDArray[Any]:
        """All instances before anybody has come; see :data:`MEETING`."""
        table = np.empty(len(self.last_s), MEETING)
        table["last_s"], table["lacking"], table["waiting"] = self.last_s, np.diff(self.timeline.instances.first), -1
        return table


def _that_end(timeline: Timeline) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Locations that end by themselves: one that replied to all that it was called for is there until it is ended, as
    workers of Ray are. Nor do other threads of a process that is called hold the end: a replay does not begin them
    earlier when it is called earlier. Where nobody ends by itself, all but these threads ``[some locations]``; and
    which have replied to all ``[locations]``."""
    locations, calls = timeline.locations, (timeline.whole or timeline).calls  # of a window, what was before it counts
    here = np.arange(len(locations))
    replies = calls.location[calls.operation == _REPLY]
    called = np.isin(locations.rank, locations.rank[replies]) & ~locations.is_main
    # What it does beside what it is called for has no end either: it serves others by messages, say.
    served = np.flatnonzero(np.isin(calls.operation, (_TAKE, _REPLY)))
    served = served[calls.enter_s[served] <= locations.end_s[calls.location[served]]]
    last = served[np.diff(calls.location[served], append=-1) != 0]
    idle = np.isin(here, calls.location[last[calls.operation[last] == _REPLY]])
    some = here[~idle & ~called]
    return (some if len(some) else here[~called]), idle


def _starts(start_s: FloatArray, change: Change | None) -> FloatArray:
    """When locations start ``[locations]``."""
    return start_s if change is None or change.earlier_s is None else np.asarray(start_s - change.earlier_s)


def _last_bursts(burst_s: FloatArray, change: Change | None, calls: int) -> FloatArray:
    """Lengths of the bursts behind the last calls, less what is removed from them ``[locations]``."""
    if change is None:
        return burst_s
    left = burst_s.copy()
    behind = change.burst >= calls
    left[change.burst[behind] - calls] -= change.removed_s[behind]
    return np.asarray(np.maximum(left, 0.0))


def _side_by_side(changes: Sequence[Change | None], calls: int) -> Changes:
    """Some changes of a run with so many calls, for one pass."""
    row: npt.NDArray[Any] = np.full(calls, -1, ROW)
    known = [(column, change) for column, change in enumerate(changes) if change is not None]
    for _, change in known:
        row[change.burst[change.burst < calls]] = 0
        row[change.call] = 0
    rows = np.flatnonzero(row == 0)
    row[rows] = np.arange(len(rows))
    shortens = any(len(change.call) for _, change in known)
    removes = any(len(change.burst) and change.burst[0] < calls for _, change in known)
    removed_s, shorter_s = (np.zeros((len(rows) * some, len(changes))) for some in (removes, shortens))
    for column, change in known:
        before = int(np.searchsorted(change.burst, calls))
        if before:
            removed_s[row[change.burst[:before]], column] = change.removed_s[:before]
        if len(change.call):
            shorter_s[row[change.call], column] = change.shorter_s
    # Of a burst that was measured to be less than nothing nothing is made only where work is taken out.
    return Changes(np.array([-np.inf if change is None else 0.0 for change in changes]), row, removed_s, shorter_s)


def prepare(
    timeline: Timeline, dependencies: Dependencies | None = None, waiting_s: FloatArray | None = None
) -> Replay:
    """Measure the bursts between calls.

    ``waiting_s`` is what of the bursts was waiting in unwritten calls ``[bursts]``: it goes when what was waited for
    goes, so that only the written calls wait in a replay. The ends are then to be compared with those of a replay
    without changes.
    """
    dependencies = dependencies or find_dependencies(timeline)
    timeline = _begun_by_calls(timeline, dependencies)
    calls, locations = timeline.calls, timeline.locations
    count, filled = len(calls), np.diff(calls.first) > 0
    burst_s = np.empty(count + len(locations))
    np.subtract(calls.enter_s[1:], calls.exit_s[:-1], out=burst_s[1:count])
    first, last = calls.first[:-1][filled], calls.first[1:][filled] - 1
    burst_s[first] = calls.enter_s[first] - locations.start_s[filled]
    burst_s[count:] = locations.end_s - locations.start_s
    burst_s[count:][filled] = locations.end_s[filled] - calls.exit_s[last]
    if waiting_s is not None:
        burst_s = np.maximum(burst_s - waiting_s, 0.0)
    return Replay(timeline, dependencies, burst_s, waiting_s, last_arrivals_s(timeline))


def _begun_by_calls(timeline: Timeline, pairs: Dependencies) -> Timeline:
    """A run in which processes that were started by calls of others are there from its start, and wait for these.

    Such a process says so by a first call that takes no time; it begins as much later than the call that started it as
    it did."""
    calls, locations = timeline.calls, timeline.locations
    place = np.flatnonzero(np.diff(calls.first) > 0)
    first = calls.first[place]
    begun = (calls.enter_s[first] == calls.exit_s[first]) & np.isin(calls.operation[first], TAKING)
    begun &= calls.wait_first[first + 1] > calls.wait_first[first]
    begun[begun] = pairs.rule[calls.wait_first[first[begun]]] == Rule.ONE
    if not begun.any():
        return timeline
    enter_s, start_s = calls.enter_s.copy(), locations.start_s.copy()
    enter_s[first[begun]] = start_s[place[begun]] = locations.start_s.min()
    return replace(timeline, calls=replace(calls, enter_s=enter_s), locations=replace(locations, start_s=start_s))
