"""What every rank works in every step, and waits for a core meanwhile; and from which step on a rank takes longer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.counts import FEWEST_STEPS
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.shares import NEARLY_ALL
from scalana.detectors.when.cost_trend import Shape, trend_of
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import periods_of_bursts
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class RankWork(ColumnTable):
    """Own work by step and rank."""

    number: IntArray
    """Of the steps, ascending ``[steps]``."""
    work_s: FloatArray
    """Without what is waited for a core ``[steps, ranks]``."""
    core_wait_s: FloatArray
    """``[steps, ranks]``"""

    @classmethod
    def of(cls, timeline: Timeline, steps: Steps) -> RankWork:
        """That of the steady state of a run. A burst belongs to the step in which its middle lies."""
        own, ranks = timeline.own, timeline.ranks
        number = steps.number[steps.steady()]
        row, burst_rank = periods_of_bursts(timeline, steps.periods())
        step, rank = row[own.burst] - steps.warm_up, burst_rank[own.burst]
        there = np.flatnonzero(step >= 0)
        key = step[there] * ranks + rank[there]

        def table(seconds: FloatArray) -> FloatArray:
            return weighted_count(key, seconds[there], len(number) * ranks).reshape(-1, ranks)

        return cls(number, table(np.maximum(own.seconds - own.core_wait_s, 0.0)), table(own.core_wait_s))

    def after(self, earlier: RankWork | None) -> RankWork:
        """With earlier steps of the same ranks before its own."""
        if earlier is None or not len(self) or earlier.work_s.shape[1] != self.work_s.shape[1]:
            return self
        before = earlier.number < self.number[0]
        return RankWork(
            np.concatenate((earlier.number[before], self.number)),
            np.concatenate((earlier.work_s[before], self.work_s)),
            np.concatenate((earlier.core_wait_s[before], self.core_wait_s)),
        )

    def last(self, count: int) -> RankWork:
        """The last of these steps."""
        return RankWork(self.number[-count:], self.work_s[-count:], self.core_wait_s[-count:])

    def longer(self, rank: int, others: IntArray) -> FloatArray:
        """Part by which a rank works longer than others usually do ``[steps]``."""
        usual_s = np.median(self.work_s[:, others], axis=1)
        return np.asarray(np.maximum(self.work_s[:, rank] / np.maximum(usual_s, 1e-300) - 1.0, 0.0))

    def lacking_s(self, rank: int, others: IntArray) -> FloatArray:
        """How long a rank waits for a core beyond its share: others wait, too, and longer where they work longer
        ``[steps]``."""
        usual_s, usual_wait_s = (np.median(of[:, others], axis=1) for of in (self.work_s, self.core_wait_s))
        times = np.maximum(self.work_s[:, rank] / np.maximum(usual_s, 1e-300), 1.0)
        return np.asarray(np.maximum(self.core_wait_s[:, rank] - times * usual_wait_s, 0.0))

    def lacking(self, rank: int, others: IntArray) -> FloatArray:
        """The same, as a part of what others take, with their waits for a core ``[steps]``."""
        usual_s = np.median((self.work_s + self.core_wait_s)[:, others], axis=1)
        return np.asarray(self.lacking_s(rank, others) / np.maximum(usual_s, 1e-300))


def late_since(more: FloatArray, fewest: int = FEWEST_STEPS) -> int | None:
    """The row of the step from which on a rank takes longer, by a part ``more`` than others ``[steps]``; 0 where it
    does in all, None where it does not, or in too few."""
    if 2 * np.count_nonzero(more >= ORDINARY) < fewest:
        return None  # most ranks: the rest takes longer
    trend = trend_of(more)
    jumps = trend is not None and trend.shape is Shape.JUMP and trend.before_s < ORDINARY <= trend.after_s
    since = trend.jump if trend is not None and jumps else 0
    late = more[since:]
    lasts = jumps or float((late >= ORDINARY).mean()) >= NEARLY_ALL
    return since if len(late) >= fewest and lasts else None


def began_at(number: IntArray, row: int, fewest: int = FEWEST_STEPS) -> int | None:
    """The step that a rank takes longer from, by its row among the known ones; None where it does in all, or where many
    steps before it are not known, as between two looks at a job that goes on."""
    return int(number[row]) if row and number[row] - number[row - 1] <= fewest else None
