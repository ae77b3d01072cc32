"""The stretch of a run whose limits are asked for: its steady state, or all of it where it shows no steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.efficiency.run_efficiency import between_setup_and_end
from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges, row_parts
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, and what of the run lies in it."""

    begin_s: float
    end_s: float
    steps: int
    """Of the steady state; 1 where the stretch is the whole run."""
    has_steps: bool
    row_part: FloatArray
    """Which part of every row of own work lies inside ``[rows of work]``."""
    call_part: FloatArray
    """Which part of every call lies inside ``[calls]``."""

    @property
    def step_s(self) -> float:
        """What a step takes, the mean."""
        return (self.end_s - self.begin_s) / self.steps

    def left_s(self, changes: list[Change], replay: Replay) -> list[float]:
        """What a step takes with each of some changes."""
        measured_s, ends_s = replay.run_ends_s(changes)
        return [max(self.step_s - max(measured_s - end_s, 0.0) / self.steps, 0.0) for end_s in ends_s]

    def of_main(self, seconds: FloatArray, timeline: Timeline) -> FloatArray:
        """What main threads take in a step of some ``seconds`` of own work; each ``[rows of work]``."""
        is_main = timeline.locations.is_main[burst_locations(timeline)]
        return np.where(is_main[timeline.own.burst], seconds * self.row_part / self.steps, 0.0)

    @classmethod
    def of(cls, timeline: Timeline, steps: Steps | None) -> Stretch | None:
        """That of a run; None where nothing was recorded."""
        if not len(timeline.locations):
            return None
        if steps is None or steps.warm_up >= len(steps):
            periods = between_setup_and_end(timeline)
            if not len(periods):
                return None
            return cls._in(periods, timeline, (float(periods.start_s.min()), float(periods.end_s.max())), 0)
        first_s, last_s = (times[steps.steady()] for times in steps.on_all_ranks())
        edges_s = float(np.median(first_s[0])), float(np.median(last_s[-1]))
        return cls._in(steps.steady_periods(), timeline, edges_s, len(first_s))

    @classmethod
    def _in(cls, periods: Periods, timeline: Timeline, edges_s: tuple[float, float], steps: int) -> Stretch:
        """What lies in some periods of ranks, from the first of two times to the second; 0 ``steps`` for none."""
        calls = timeline.calls
        rank = timeline.locations.rank
        called_s = periods.inside_s(rank[calls.location].astype(np.int64), calls.enter_s, calls.exit_s)
        called = _part(called_s, calls.exit_s - calls.enter_s)
        return cls(*edges_s, max(steps, 1), steps > 0, _row_parts(timeline, periods), called)


def _row_parts(timeline: Timeline, periods: Periods) -> FloatArray:
    """Which part of every row of own work lies in some periods: by when it was seen, where that is known ``[rows]``."""
    own, (begin, end) = timeline.own, gap_edges(timeline)
    rank = timeline.locations.rank[burst_locations(timeline)].astype(np.int64)
    of_burst = _part(periods.inside_s(rank, begin, end), end - begin)
    since, until = own.seen_s[:, 0], own.seen_s[:, 1]
    seen = _part(periods.inside_s(rank[own.burst[own.seen_row]], since, until), until - since)
    return row_parts(own, slice(0, len(own)), of_burst[own.burst], seen)


def _part(inside_s: FloatArray, whole_s: FloatArray) -> FloatArray:
    return np.asarray(np.clip(inside_s / np.maximum(whole_s, 1e-300), 0.0, 1.0))
