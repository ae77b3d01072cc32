"""The steps of a run, and what of it is start-up, steady state and end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.steps.periods import Periods

OUTLYING = 5.0
"""Standard deviations of an ordinary step's length by which a step must exceed the median to stand out: the same as for
a single lateness (:mod:`scalana.detectors.noise.significance`)."""
STANDS_OUT = 0.3
"""Part of the median by which it must exceed it besides: of very even steps a few per cent are many deviations."""
FEWEST = 3
"""Steps from which one can tell what is ordinary."""
_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True)
class Steps:
    """Steps that all ranks make, numbered alike. Those of a rank follow each other and do not overlap."""

    source: str
    """Where they are from, see :data:`~scalana.graphs.steps.find_steps.SOURCES`."""
    number: IntArray
    """Ascending ``[steps]``."""
    start_s: FloatArray
    """Aligned; NaN where a rank has no such step, or its beginning is not known ``[steps, ranks]``."""
    end_s: FloatArray
    """NaN where a rank has no such step ``[steps, ranks]``."""
    warm_up: int = 0
    """So many of the first steps are start-up: see :func:`with_warm_up`."""
    ahead: bool = False
    """Whether hosts launch whole steps ahead of their devices. A step of a host then is short, until one in which it
    waits for the device takes the time of all of these: only together they say how long steps take."""

    def __len__(self) -> int:
        return len(self.number)

    def length_s(self) -> FloatArray:
        """Seconds of every step, of the median rank; NaN where no rank knows ``[steps]``."""
        return _middle(self.end_s - self.start_s)

    def steady(self) -> slice:
        """Rows of the steps of the steady state."""
        return slice(self.warm_up, len(self))

    def slow(self) -> IntArray:
        """Rows of the steps of the steady state that take longer than the run's own spread explains, longest first.

        Where hosts are :attr:`ahead`, a long step takes the time of what was launched before it, too: what counts then
        is its mean with the short ones before it.
        """
        length = self.length_s()
        steady = length[self.steady()]
        if self.ahead:
            rows = np.flatnonzero(steady > steady.mean())
            since = np.append(0, rows + 1)[: len(rows)]
            until = np.append(0.0, np.cumsum(steady))
            mean = (until[rows + 1] - until[since]) / (rows + 1 - since)
            rows = rows[mean > outlying_above(mean)]
        else:
            rows = np.flatnonzero(steady > outlying_above(steady))
        rows = rows + self.warm_up
        return rows[np.argsort(-length[rows], kind="stable")]

    def on_all_ranks(self) -> tuple[FloatArray, FloatArray]:
        """Start and end of every step on every rank, each ``[steps, ranks]``, in order and without a burst in
        knowledge.

        A rank without a step has it when the median rank has. A step whose beginning nobody knows has no length.
        """
        return self._edges

    @cached_property
    def _edges(self) -> tuple[FloatArray, FloatArray]:
        end = _filled(self.end_s)
        start = _filled(self.start_s)
        start = np.where(np.isnan(start), end, start)
        end = np.maximum.accumulate(end, axis=0)
        before = np.concatenate((np.full((1, end.shape[1]), -np.inf), end[:-1]))
        return np.minimum(np.maximum(start, before), end), end

    def periods(self) -> Periods:
        """All steps as periods: row ``s`` of each rank is step ``s``."""
        return Periods.of(*self.on_all_ranks())

    def steady_periods(self) -> Periods:
        """The steady state of every rank; steps that follow each other at once are one period."""
        start, end = (times[self.steady()] for times in self.on_all_ranks())
        ranks = np.repeat(np.arange(start.shape[1]), len(start))
        return Periods.joined(ranks, start.T.ravel(), end.T.ravel(), start.shape[1])

    def steady_s(self) -> float:
        """Seconds that a rank is in steps of the steady state, on average over ranks."""
        start, end = self.on_all_ranks()
        return float((end - start)[self.steady()].sum()) / max(end.shape[1], 1)


def with_warm_up(steps: Steps) -> Steps:
    """The same steps, with the first of them told apart that are start-up.

    First steps compile, allocate, connect and fill caches. Start-up are those at the beginning that each take longer
    than the median by more than the run's own spread (as for slow steps), and those whose beginning is not known; but
    never half of the steps. Where hosts are ahead of their devices, start-up are those that take longer than all of the
    second half.
    """
    length = steps.length_s()
    known = length[~np.isnan(length)]
    limit = float(known[len(known) // 2 :].max(initial=0.0)) if steps.ahead else outlying_above(known)
    ordinary = ~(length > limit) & ~np.isnan(length)
    first = int(np.argmax(ordinary)) if ordinary.any() else 0
    if 2 * first >= len(steps):
        first = int(np.argmax(~np.isnan(length)))
    return replace(steps, warm_up=first)


def outlying_above(length_s: FloatArray) -> float:
    """What a step must exceed to stand out among others, by the spread of these."""
    if len(length_s) < FEWEST:
        return np.inf
    median = float(np.median(length_s))
    return median + max(OUTLYING * spread_of(length_s), STANDS_OUT * median)


def spread_of(values: FloatArray) -> float:
    """Standard deviation of what is ordinary among some values, by their median absolute deviation."""
    return _OF_NORMAL * float(np.median(np.abs(values - np.median(values))))


def _middle(values: FloatArray) -> FloatArray:
    """Median of every row over what is known of it; NaN where nothing is ``[rows]``."""
    missing = np.isnan(values)
    if not missing.any():
        return np.asarray(np.median(values, axis=1)) if values.shape[1] else np.full(len(values), np.nan)
    result = np.full(len(values), np.nan)
    known = ~missing.all(axis=1)
    result[known] = np.nanmedian(values[known], axis=1)
    return result


def _filled(values: FloatArray) -> FloatArray:
    """The same, with the median of its row for what is missing."""
    missing = np.isnan(values)
    return np.where(missing, _middle(values)[:, None], values) if missing.any() else values
