"""The stretch of a run whose limits are asked for: its steady state, or all of it where it shows no steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.facts import Facts
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.periods import Periods
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

    @classmethod
    def of(cls, facts: Facts) -> Stretch | None:
        """That of a run; None where nothing was recorded."""
        timeline, steps = facts.timeline, facts.steps
        if not len(timeline.locations):
            return None
        start_s, end_s = timeline.locations.start_s, timeline.locations.end_s
        if steps is None or steps.warm_up >= len(steps):
            rows, called = np.ones(len(timeline.own)), np.ones(len(timeline.calls))
            return cls(float(start_s.min()), float(end_s.max()), 1, False, rows, called)
        periods, calls = steps.steady_periods(), timeline.calls
        first_s, last_s = (times[steps.steady()] for times in steps.on_all_ranks())
        rank = timeline.locations.rank
        called_s = periods.inside_s(rank[calls.location].astype(np.int64), calls.enter_s, calls.exit_s)
        return cls(
            float(np.median(first_s[0])),
            float(np.median(last_s[-1])),
            len(first_s),
            True,
            _row_parts(timeline, periods),
            _part(called_s, calls.exit_s - calls.enter_s),
        )


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
