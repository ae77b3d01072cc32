"""Attempts of a job without ranks, such as a driver and actors of Ray.

The process that marks steps, usually the driver, goes on while others are started again. So its steps are divided: an
attempt lasts until a process ends that is started again, if no step ends before that one is at work. What goes on
meanwhile, as with one of many workers, is no attempt of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.progress.attempt_times import Attempt, attempt_of, ranks_to_look_at
from scalana.graphs.progress.rank_times import HostClocks, RankTimes, marks_steps, rank_times
from scalana.graphs.readers.folder.record_columns import as_integers
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.started_again import StartedAgain
from scalana.runtime.record.format import ProcessRecord

_NS = 1e-9
_UNWRITTEN_S = 1.0
"""Of the record of a process that dies, so much may be missing: steps that end meanwhile may be those before."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """From the end of a process to the begin of the one in its place."""

    end_s: float
    start_s: float
    name: str


def attempts_of_members(
    records: Sequence[ProcessRecord], again: Sequence[StartedAgain], names: ProcessNames
) -> list[Attempt]:
    """The attempts of a job of processes without ranks; none where no process marks steps.

    Args:
        records: of these processes.
        again: those that were started again.
        names: what they are called.
    """
    clocks = HostClocks()
    kept = {id(record) for one in again for record in (one.ended, one.again)}
    few = ranks_to_look_at(len(records))
    some = [one for row, one in enumerate(records) if row in few or id(one) in kept or marks_steps(one)]
    times = {id(one): rank_times(one, clocks.offset_ns(one)) for one in some}
    main = max(times.values(), key=lambda one: len(one.step_end_s), default=None)
    if main is None or not len(main.step_end_s):
        return []
    gaps = [
        _gap(main, times[id(one.ended)], times[id(one.again)], _back_s(one, clocks), names.one(one.process))
        for one in again
    ]
    return _divided([one for one in times.values() if one is main or not one.step_source], main, _joined(gaps))


def _back_s(one: StartedAgain, clocks: HostClocks) -> float:
    """When the process in the place of one that ended has ended a call since then; that end, where it has none."""
    events = one.again.events
    ends = as_integers(events.enter_ns) + as_integers(events.duration_ns)
    later = ends[ends > one.ended.last_ns]
    back_ns = int(later.min()) if len(later) else max(one.ended.last_ns, one.again.number("start_ns", 0))
    return (back_ns + clocks.offset_ns(one.again)) * _NS


def _gap(main: RankTimes, ended: RankTimes, new: RankTimes, back_s: float, name: str) -> _Gap | None:
    """When a process was started again; None where steps end before the one in its place is at work."""
    until = main.step_end_s[main.step_end_s < back_s]
    last_s = float(until[-1]) if len(until) else -np.inf
    if last_s > ended.end_s + _UNWRITTEN_S:
        return None
    end_s = max(ended.end_s, last_s)
    return _Gap(end_s, max(new.start_s, end_s), name)


def _joined(gaps: Iterable[_Gap | None]) -> list[_Gap]:
    """Processes that end while another one is started again belong to that."""
    found: list[_Gap] = []
    for gap in gaps:
        if gap is None:
            continue
        if found and gap.end_s <= found[-1].start_s:
            last = found[-1]
            found[-1] = replace(last, start_s=max(last.start_s, gap.start_s), name=f"{last.name}, {gap.name}")
        else:
            found.append(gap)
    return found


def _divided(times: Sequence[RankTimes], main: RankTimes, gaps: Sequence[_Gap]) -> list[Attempt]:
    """What all processes did, divided at some gaps."""
    whole = attempt_of(times)
    starts = [whole.start_s, *(gap.start_s for gap in gaps)]
    ends = [*(gap.end_s for gap in gaps), whole.end_s]
    failures = [*(f"{gap.name} ended" for gap in gaps), ""]
    parts = []
    for row, (start_s, end_s, failure) in enumerate(zip(starts, ends, failures, strict=True)):
        since_s = ends[row - 1] if row else start_s
        parts.append(replace(_part(whole, main, (since_s, start_s), end_s), failure=failure))
    return parts


def _part(whole: Attempt, main: RankTimes, begin_s: tuple[float, float], end_s: float) -> Attempt:
    """What was done in a part of the time, from the end of the one before and from its own start on. A step that began
    before that, and failed, is made in it: when it began there is not known."""
    since_s, start_s = begin_s
    inside = (main.step_end_s > since_s) & (main.step_end_s <= end_s)
    begins, ends = main.step_start_s[inside], main.step_end_s[inside]
    first_s = last_s = float("nan")
    if len(ends):
        first_s, last_s = float(begins[0] if begins[0] >= start_s else ends[0]), float(ends[-1])
    unseen = whole.steps - len(main.step_end_s)  # the first of all, of which only the end is known
    return replace(
        whole,
        start_s=start_s,
        end_s=end_s,
        first_step_s=first_s,
        last_step_s=last_s,
        step_end_s=ends,
        steps=len(ends) + (unseen if inside[:1].any() else 0),
        checkpoints=_within(whole.checkpoints, since_s, end_s),
        evaluations=_within(whole.evaluations, since_s, end_s),
        files=tuple(file for file in whole.files if since_s < file.end_s <= end_s),
    )


def _within(stretches: FloatArray, start_s: float, end_s: float) -> FloatArray:
    clipped = np.clip(stretches, start_s, end_s)
    return clipped[clipped[:, 1] > clipped[:, 0]]
