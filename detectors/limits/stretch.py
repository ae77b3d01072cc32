"""The stretch of a run whose limits are asked for: its steady state, or all of it where it shows no steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.facts import Facts
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.window import gap_edges


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, and what of the run lies in it."""

    begin_s: float
    end_s: float
    steps: int
    """Of the steady state; 1 where the stretch is the whole run."""
    has_steps: bool
    burst_part: FloatArray
    """Which part of every burst lies inside ``[bursts]``."""
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
            whole = np.ones(len(timeline.calls) + len(timeline.locations))
            return cls(float(start_s.min()), float(end_s.max()), 1, False, whole, whole[: len(timeline.calls)])
        periods, calls = steps.steady_periods(), timeline.calls
        first_s, last_s = (times[steps.steady()] for times in steps.on_all_ranks())
        rank = timeline.locations.rank
        begin, end = gap_edges(timeline)
        inside_s = periods.inside_s(rank[burst_locations(timeline)].astype(np.int64), begin, end)
        called_s = periods.inside_s(rank[calls.location].astype(np.int64), calls.enter_s, calls.exit_s)
        return cls(
            float(np.median(first_s[0])),
            float(np.median(last_s[-1])),
            len(first_s),
            True,
            _part(inside_s, end - begin),
            _part(called_s, calls.exit_s - calls.enter_s),
        )


def _part(inside_s: FloatArray, whole_s: FloatArray) -> FloatArray:
    return np.asarray(np.clip(inside_s / np.maximum(whole_s, 1e-300), 0.0, 1.0))
