"""What ranks wait for data in their steps, and what more workers of their loaders would leave of that.

A loader hands out batches in order. A worker that makes a batch in ``b`` seconds, with ``k - 1`` like it, lets a batch
out every ``b / k``; a rank that works ``c`` seconds between two batches gets one every ``max(c, b / k)``. Where ranks
wait for nearly every batch, their ``w`` workers never rest, and ``b = w (c + wait)``. What workers compute they compute
on the cores of their host, which are as many as there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps


@dataclass(frozen=True, slots=True)
class DataWaits:
    """Waiting for data in the steady state; arrays are ``[ranks]`` unless they say something else."""

    rows: IntArray
    """Spans of waiting in the steady state ``[waits]``."""
    rank: IntArray
    """Of each ``[waits]``."""
    steps: int
    step_s: FloatArray
    """What a step takes, the mean."""
    wait_s: FloatArray
    """What a rank waits in a step, the mean."""
    workers: IntArray
    """Of the loader in which a rank waits longest, -1 where it is not known."""
    in_step_s: FloatArray
    """What each rank waits in each step ``[steps, ranks]``."""

    def often(self, part: float) -> FloatArray:
        """In which part of its steps each rank waits for more than a part of an average step."""
        return np.asarray((self.in_step_s > part * self.step_s).mean(axis=0))

    def among(self, some: BoolArray, seconds: FloatArray) -> DataWaits:
        """Of some of the waits alone; both are ``[waits]``, ``seconds`` is what each lasts."""
        rank = self.rank[some]
        wait_s = np.bincount(rank, seconds[some], len(self.step_s)) / self.steps
        return replace(self, rows=self.rows[some], rank=rank, wait_s=wait_s)

    def left(self, workers: int, core_s: FloatArray) -> FloatArray:
        """The part of its waiting that is left of each rank with so many workers each; ``core_s`` is what the cores of
        its host take at least for a step."""
        own_s = self.step_s - self.wait_s
        made_s = np.where(self.workers > 0, self.workers * self.step_s, self.wait_s)
        left_s = np.maximum(made_s / workers, core_s) - own_s
        return np.clip(left_s / np.maximum(self.wait_s, 1e-300), 0.0, 1.0)


def data_waits(spans: Spans, steps: Steps, ranks: int) -> DataWaits | None:
    """What ranks wait for data; None where nobody does, or there is no steady state."""
    rows = spans.rows("data")
    rows = rows[(spans.rank[rows] >= 0) & (spans.rank[rows] < ranks)]
    start_s, end_s = (times[steps.steady()] for times in steps.on_all_ranks())
    count = len(start_s)
    if not len(rows) or not count:
        return None
    rank = spans.rank[rows]
    middle_s = (spans.start_s(rows) + spans.end_s(rows)) / 2
    steady = (middle_s >= start_s[0][rank]) & (middle_s <= end_s[-1][rank])
    rows, rank = rows[steady], rank[steady]
    if not len(rows):
        return None
    seconds = spans.end_s(rows) - spans.start_s(rows)
    workers = np.full(ranks, -1, np.int64)
    order = np.argsort(seconds, kind="stable")  # the longest has the word
    workers[rank[order]] = spans.integers("workers")[rows[order]]
    return DataWaits(
        rows,
        rank,
        count,
        (end_s[-1] - start_s[0]) / count,
        np.bincount(rank, seconds, ranks) / count,
        workers,
        _in_steps(Periods.of(start_s, end_s), rank, middle_s[steady], seconds).reshape(count, ranks),
    )


def _in_steps(steps: Periods, rank: IntArray, middle_s: FloatArray, seconds: FloatArray) -> FloatArray:
    """Seconds of some waits, by step and rank ``[steps x ranks]``; the others are ``[waits]``."""
    ranks = len(steps.first) - 1
    step = steps.row_at(rank, middle_s)
    inside = step >= 0
    return weighted_count(step[inside] * ranks + rank[inside], seconds[inside], len(steps))
