"""What processes do when, as pieces of time in phases that do not overlap: those that are marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.phases import Doing
from scalana.detectors.rl.requests import serving, that_serve
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline


@dataclass(slots=True)
class Pieces:
    """Pieces of time of one process, each in its innermost phase."""

    start_s: list[float]
    end_s: list[float]
    doing: list[Doing]


def marked_pieces(spans: Spans, meaning: IntArray, timeline: Timeline) -> tuple[dict[int, Pieces], IntArray]:
    """The marked phases of all processes, by rank, and the location of the thread that they are of, -1 for one that
    does not communicate ``[ranks]``. ``meaning`` is what a phase of each name is ``[names]``."""
    rows = spans.rows("phase")
    ranks, main = spans.rank[rows], np.flatnonzero(timeline.locations.is_main)
    pieces, of_phases = {}, np.full(timeline.ranks, -1)
    served = that_serve(spans)
    server = spans.rank[served]
    for rank in range(timeline.ranks):
        mine = _of_main_lane(spans, rows[ranks == rank])
        generates = (meaning[spans.table.name[mine]] == Doing.GENERATION).any()
        serves = served[server == rank] if not generates else served[:0]
        pieces[rank] = _innermost(spans, mine, meaning, serving(spans, serves))
        if len(mine):
            of_phases[rank] = spans.lanes.location[spans.table.lane[mine[0]]]
        elif len(serves):  # lanes of a place in a batch are no thread's
            of = np.unique(spans.lanes.location[spans.table.lane[serves]])
            own = main[timeline.locations.rank[main] == rank]
            of_phases[rank] = of[0] if len(of) == 1 and of[0] >= 0 else own[0] if len(own) else -1
    return pieces, of_phases


def _of_main_lane(spans: Spans, rows: IntArray) -> IntArray:
    """Of the phases of a process those of the thread that has most of them."""
    if not len(rows):
        return rows
    lane = spans.table.lane[rows].astype(np.int64)
    length = spans.end_s(rows) - spans.start_s(rows)
    return rows[lane == np.bincount(lane, length).argmax()]


def _innermost(spans: Spans, rows: IntArray, meaning: IntArray, serving_s: FloatArray) -> Pieces:
    """Phases of one thread as pieces that do not overlap: the innermost counts. Log-probabilities right inside
    training are its forward pass, unless that has training as a part of its own. ``serving_s`` is when it generates
    besides, outside of all phases ``[stretches, 2]``."""
    start = np.concatenate((spans.start_s(rows), serving_s[:, 0]))
    end = np.concatenate((spans.end_s(rows), serving_s[:, 1]))
    doing = np.concatenate((meaning[spans.table.name[rows]], np.full(len(serving_s), int(Doing.GENERATION))))
    pieces = Pieces([], [], [])
    order = np.lexsort((-end, start))
    whole = _made_of_training(start[order], end[order], doing[order] == Doing.TRAINING)
    stack: list[tuple[float, Doing, bool]] = []
    now = 0.0

    def until(time_s: float) -> None:
        nonlocal now
        if stack and time_s > now:
            pieces.start_s.append(now)
            pieces.end_s.append(time_s)
            pieces.doing.append(stack[-1][1])
        now = max(now, time_s)

    for place, row in enumerate(order.tolist()):
        while stack and stack[-1][0] <= start[row]:
            until(stack[-1][0])
            stack.pop()
        until(float(start[row]))
        kind = Doing(int(doing[row]))
        if stack:
            _, inside, of_parts = stack[-1]
            if kind == Doing.OTHER or (kind == Doing.LOG_PROB and inside == Doing.TRAINING and not of_parts):
                kind = inside
        stack.append((float(end[row]), kind, bool(whole[place])))
    while stack:
        until(stack[-1][0])
        stack.pop()
    return pieces


def _made_of_training(start_s: FloatArray, end_s: FloatArray, training: BoolArray) -> BoolArray:
    """Which phases of training have another one inside; all sorted by start, the longest first ``[phases]``."""
    whole = np.zeros(len(start_s), np.bool_)
    around: list[int] = []
    for phase in np.flatnonzero(training).tolist():
        while around and end_s[around[-1]] <= start_s[phase]:
            around.pop()
        if around:
            whole[around[-1]] = True
        around.append(phase)
    return whole
