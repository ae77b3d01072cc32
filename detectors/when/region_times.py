"""Time and waiting of every rank in the regions that the user named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.section_name import SectionName
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods
from scalana.graphs.timeline import Timeline

_PROFILE = "profile"
"""The region that ``scalana.profile`` is inside a recording: the whole of it, which tells nothing."""


@dataclass(frozen=True, slots=True)
class RegionTime:
    """One region inside those around it, over all ranks and times that it was entered."""

    path: tuple[str, ...]
    """Names from the outermost region to this one."""
    count: int
    """Times that it was entered, on all ranks."""
    seconds: FloatArray
    """In it, regions inside it included; 0 on ranks that never entered it ``[ranks]``."""
    wait_s: FloatArray
    """Of these, waiting for other ranks ``[ranks]``."""
    periods: Periods
    """When ranks were in it."""


@dataclass(frozen=True, slots=True)
class Named:
    """Regions as they were entered, in no order."""

    lane: IntArray
    """What they lie on: a thread ``[regions]``."""
    rank: IntArray
    """``[regions]``"""
    name: list[str]
    """``[regions]``"""
    start_s: FloatArray
    """``[regions]``"""
    end_s: FloatArray
    """``[regions]``"""

    @classmethod
    def of(cls, spans: Spans, kind: str = "region") -> Named:
        """Those among the spans of a run; of another ``kind``, the spans of that."""
        rows = spans.rows(kind)
        rows = rows[spans.table.name[rows] != spans.number(_PROFILE)]
        name = [spans.names[number] for number in spans.table.name[rows].tolist()]
        lane = spans.table.lane[rows].astype(np.int64)
        return cls(lane, spans.rank[rows], name, spans.start_s(rows), spans.end_s(rows))


def region_times(named: Named, timeline: Timeline, waits: WaitStates) -> list[RegionTime]:
    """The regions of a run, longest first, those inside each behind it; empty where the user named none.

    Only what lies in the time of a rank's record counts. A region lies in those of its lane that hold it.
    """
    begin, stop = np.full(timeline.ranks, np.inf), np.full(timeline.ranks, -np.inf)
    np.minimum.at(begin, timeline.locations.rank, timeline.locations.start_s)
    np.maximum.at(stop, timeline.locations.rank, timeline.locations.end_s)
    there = (named.end_s > begin[named.rank]) & (named.start_s < stop[named.rank])
    order = np.flatnonzero(there)
    order = order[np.lexsort((-named.end_s[order], named.start_s[order], named.lane[order]))]
    names = sorted(set(named.name))
    number = {name: row for row, name in enumerate(names)}
    name = np.array([number[named.name[row]] for row in order.tolist()], np.int64)
    lane, rank = named.lane[order], named.rank[order]
    path, paths = _paths(_enclosing(lane, named.start_s[order], named.end_s[order]), name, names)
    start, end = np.maximum(named.start_s[order], begin[rank]), np.minimum(named.end_s[order], stop[rank])
    waiting = _Waiting.of(timeline, waits)
    times = [
        _of_path(paths[row], rank[path == row], start[path == row], end[path == row], waiting, timeline)
        for row in range(len(paths))
    ]
    longest = {time.path: float(time.seconds.max()) for time in times}
    return sorted(times, key=lambda time: [(-longest[time.path[: n + 1]], time.path[n]) for n in range(len(time.path))])


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Calls that waited."""

    rank: IntArray
    start_s: FloatArray
    end_s: FloatArray
    scale: FloatArray
    """Seconds of waiting for which a second of these stands."""

    @classmethod
    def of(cls, timeline: Timeline, waits: WaitStates) -> _Waiting:
        rows = np.flatnonzero(waits.wait_s > 0.0)
        calls, unwritten = timeline.calls, timeline.unwritten
        enter = calls.enter_s[rows]
        scale = unwritten.stands_for[rows] if unwritten is not None else np.ones(len(rows))
        rank = timeline.locations.rank[calls.location[rows]]
        return cls(rank, enter, enter + waits.wait_s[rows], scale)


def _of_path(
    path: tuple[str, ...], rank: IntArray, start: FloatArray, end: FloatArray, waiting: _Waiting, timeline: Timeline
) -> RegionTime:
    periods = Periods.joined(rank, start, end, timeline.ranks)
    inside = periods.inside_s(waiting.rank, waiting.start_s, waiting.end_s) * waiting.scale
    return RegionTime(
        path,
        count=len(rank),
        seconds=periods.rank_s(),
        wait_s=weighted_count(waiting.rank, inside, timeline.ranks),
        periods=periods,
    )


def _paths(parent: IntArray, name: IntArray, names: list[str]) -> tuple[IntArray, list[tuple[str, ...]]]:
    """Number of the nested names of every region, and these; ``parent`` is the row of the region around it."""
    path: IntArray = np.full(len(name), -1, np.int64)
    paths: list[tuple[str, ...]] = []
    rows = np.flatnonzero(parent < 0)
    while len(rows):
        above = np.where(parent[rows] >= 0, path[parent[rows]], -1)
        number, chosen = number_columns(above, name[rows])
        known = [paths[above[row]] if above[row] >= 0 else () for row in chosen.tolist()]
        path[rows] = len(paths) + number
        paths += [(*outer, names[name[rows[row]]]) for outer, row in zip(known, chosen.tolist(), strict=True)]
        rows = np.flatnonzero((path < 0) & (path[np.maximum(parent, 0)] >= 0) & (parent >= 0))
    return path, paths


def _enclosing(lane: IntArray, start: FloatArray, end: FloatArray) -> IntArray:
    """Row of the innermost region around every one, -1 for none; they are in order of lane, start and falling end
    ``[regions]``."""
    parent = np.full(len(lane), -1, np.int64)
    _nest(lane, start, end, parent)
    return parent


@compiled
def _nest(lane, start, end, parent):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(1, len(lane)):
        above = row - 1
        while above >= 0 and (lane[above] != lane[row] or end[above] < end[row] or end[above] <= start[row]):
            above = parent[above] if lane[above] == lane[row] else -1
        parent[row] = above


REGIONS: SectionName[list[RegionTime]] = SectionName("regions")
"""Longest first, those inside each behind it; where the user named any."""
