"""Whether a cost changes over the steps of a run: steadily, or at once from one step on.

Steady change is told by the test of Mann (1945) and Kendall (1975), whose variance is that of so many independent
values as a series is worth in which neighbours are alike (Yue, Wang 2004; Bayley, Hammersley 1946), and by the slope of
Theil (1950) and Sen (1968), the median over all pairs: a fourth of wild values moves neither far.

What is at another level from some step on rises by that test as well. So three descriptions are compared: one level,
two levels, a line. Each is fitted and judged by absolute deviations, and by the information criterion of Schwarz (1978)
for errors that follow a Laplace distribution.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.certainty import CHANCE, CORRELATED, DECIDED, DECISIVE
from scalana.detectors.thresholds.counts import FEWEST_STEPS, PARTS_OF_A_SERIES, SHOWS_THE_NOISE
from scalana.detectors.thresholds.differences import STANDS_OUT, UNCHANGED
from scalana.detectors.thresholds.limits import VALUES_OF_A_SERIES
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, SHARE_OF_ITS_OWN, WARM_UP
from scalana.graphs.arrays.types import FloatArray, IntArray


class Shape(enum.Enum):
    """How a cost changes."""

    LINE = "line"
    """From step to step."""
    JUMP = "jump"
    """At once: from one step on it has another level."""
    UNCLEAR = "unclear"
    """By one or the other."""


_PARAMETERS: dict[Shape | None, int] = {None: 1, Shape.LINE: 2, Shape.JUMP: 3}
"""That are fitted; None is one level."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A change over the steps."""

    shape: Shape
    before_s: float
    """At the first step; of a jump, usually before it; where it is unclear, usually in the first fourth."""
    after_s: float
    """At the last step; of a jump, usually from then on; else usually in the last fourth."""
    per_step_s: float
    """Slope of the line."""
    jump: int
    """The row from which on the new level is paid; -1 where it is no jump."""
    first: int
    """The first row that was looked at."""
    last: int
    """The last one."""
    paid: int
    """So many were looked at: all, or those that pay."""
    next_s: float
    """What as many steps again cost, if the line goes on, or the new level stays."""

    @property
    def rises(self) -> bool:
        """Whether it costs more in the end."""
        return self.after_s > self.before_s


def trend_of(cost_s: FloatArray, at: IntArray | None = None, stands_for: FloatArray | None = None) -> Trend | None:
    """How a cost ``[steps]`` changes; None where it does not, or where that may be chance.

    What costs something in some of the steps only, such as a checkpoint, may change in these alone.

    Args:
        cost_s: of each step that was looked at.
        at: numbers of these, ascending, where others lie between them ``[steps]``.
        stands_for: for how many steps each of them stands ``[steps]``.
    """
    every = np.arange(len(cost_s))
    number = every.astype(np.float64) if at is None else (at - at[:1]).astype(np.float64)
    weight = np.ones(len(cost_s)) if stands_for is None else stands_for
    paid = np.flatnonzero(cost_s > MAJORITY * float(cost_s.mean())) if len(cost_s) else every
    found = _in_rows(cost_s, every, number, weight)
    return found if found or len(paid) > NEARLY_ALL * len(every) else _in_rows(cost_s, paid, number, weight)


def _in_rows(cost_s: FloatArray, row: IntArray, number: FloatArray, weight: FloatArray) -> Trend | None:
    """The same of some of the steps."""
    if len(row) < FEWEST_STEPS:
        return None
    size = -(-len(row) // VALUES_OF_A_SERIES)
    at, value = means(number[row], size), means(cost_s[row], size)
    slope, begin = line(at, value)
    cut = _cut(value)
    shape, worth = _shape(value, begin + slope * at, cut)
    if shape is None:
        return None
    of = int(row[0]), int(row[-1]), len(row)
    if shape is Shape.JUMP:
        first = cut * size
        early, late = cost_s[row[:first]], cost_s[row[first:]]
        before, after = float(np.median(early)), float(np.median(late))
        found = Trend(shape, before, after, 0.0, int(row[first]), *of, after * float(weight[row].sum()))
        lasting = _apart(early, late) >= NEARLY_ALL and (found.rises or first > WARM_UP * len(row))
        return found if lasting and _large(found) else None
    if by_chance(value, worth) > CHANCE or not _goes_on(at, value, slope):
        return None
    before, after = (max(begin + slope * float(number[row[end]]), 0.0) for end in (0, -1))
    if shape is Shape.UNCLEAR:
        before, after = (
            float(np.median(value[part])) for part in (slice(len(value) // 4), slice(-(len(value) // 4), None))
        )
    further = number[row] + number[-1] + 1.0
    next_s = float((weight[row] * np.maximum(begin + slope * further, 0.0)).sum())
    found = Trend(shape, before, after, slope, -1, *of, next_s)
    return found if _large(found) else None


def line(at: FloatArray, value: FloatArray) -> tuple[float, float]:
    """The Theil-Sen line: the median slope over all pairs, and the value at 0 by the median of what it leaves. ``at``
    ascends; both are ``[values]``."""
    one, other = np.triu_indices(len(at), 1)
    slope = float(np.median((value[other] - value[one]) / (at[other] - at[one])))
    return slope, float(np.median(value - slope * at))


def by_chance(value: FloatArray, worth: float) -> float:
    """Probability that a series without a trend rises or falls as steadily (Mann-Kendall, both sides), if its values
    are ``worth`` so many independent ones."""
    count = len(value)
    one, other = np.triu_indices(count, 1)
    score = float(np.sign(value[other] - value[one]).sum())
    _, tied = np.unique(value, return_counts=True)
    variance = count * (count - 1) * (2 * count + 5) - float((tied * (tied - 1) * (2 * tied + 5)).sum())
    variance *= count / worth / 18.0
    if variance <= 0.0:
        return 1.0
    return math.erfc(max(abs(score) - 1.0, 0.0) / math.sqrt(2.0 * variance))


def independent(value: FloatArray, cut: int | None = None) -> float:
    """So many independent values is a series worth in which each is like the one before it.

    What is looked at are ranks, which any steady change, straight or not, makes a line; less that line, or less the
    means before and after a ``cut``. The correlation of neighbours is freed of its bias in short series (Kendall 1954).
    """
    count = len(value)
    _, tie, size = np.unique(value, return_inverse=True, return_counts=True)
    rank = (np.cumsum(size) - (size - 1) / 2.0)[tie]
    if cut is None:
        row = np.arange(count) - (count - 1) / 2.0
        left = rank - rank.mean() - row * float((row * rank).sum()) / float((row * row).sum())
    else:
        left = np.concatenate([part - part.mean() for part in (rank[:cut], rank[cut:])])
    left[np.abs(left) < 1.0] = 0.0
    alike = float((left[1:] * left[:-1]).sum()) / max(float((left * left).sum()), 1e-300)
    alike = min(max(alike + (1.0 + 4.0 * alike) / count, 0.0), CORRELATED)
    return max(count * (1.0 - alike) / (1.0 + alike), 2.0)


def _shape(value: FloatArray, straight: FloatArray, cut: int) -> tuple[Shape | None, float]:
    """What describes a series best, None being one level, and how many independent values it is worth."""
    left: dict[Shape | None, FloatArray] = {
        None: value - np.median(value),
        Shape.LINE: value - straight,
        Shape.JUMP: np.concatenate([part - np.median(part) for part in (value[:cut], value[cut:])]),
    }
    deviation = {shape: float(np.abs(of).sum()) for shape, of in left.items()}
    worth = independent(value, cut if deviation[Shape.JUMP] < deviation[Shape.LINE] else None)
    known_to = max(UNCHANGED * float(np.median(np.abs(value))) * len(value), 1e-300)
    criterion = {
        shape: 2.0 * worth * math.log(deviation[shape] + known_to) + number * math.log(worth)
        for shape, number in _PARAMETERS.items()
    }
    if criterion[None] - min(criterion.values()) < DECISIVE:
        return None, worth
    apart = criterion[Shape.LINE] - criterion[Shape.JUMP]
    if apart <= -DECIDED:
        return Shape.LINE, worth
    flat = all(
        by_chance(part, max(worth * len(part) / len(value), 2.0)) > CHANCE for part in (value[:cut], value[cut:])
    )
    return (Shape.JUMP if apart >= DECIDED and flat else Shape.UNCLEAR), worth


def _cut(value: FloatArray) -> int:
    """Where two levels begin and end that leave the least of a series: the first value of the second one."""
    least = max(SHOWS_THE_NOISE, len(value) // PARTS_OF_A_SERIES)
    cuts = np.arange(least, len(value) - least + 1)
    both = _deviations(value)[cuts - 1] + _deviations(value[::-1])[len(value) - cuts - 1]
    return int(cuts[both.argmin()])


def _deviations(value: FloatArray) -> FloatArray:
    """Sums of the absolute deviations of the first value, the first two, and so on, from their medians ``[values]``."""
    count = len(value)
    part = np.sort(np.where(np.tri(count, dtype=np.bool_), value, np.inf), axis=1)
    sums = np.concatenate((np.zeros((count, 1)), np.cumsum(np.where(np.isinf(part), 0.0, part), axis=1)), axis=1)
    row = np.arange(count)
    return np.asarray(sums[row, row + 1] - sums[row, (row + 2) // 2] - sums[row, (row + 1) // 2])


def _goes_on(at: FloatArray, value: FloatArray, slope: float) -> bool:
    """Whether each half of a series changes, too."""
    half = len(at) // 2
    return all(line(at[part], value[part])[0] / slope >= SHARE_OF_ITS_OWN for part in (slice(half), slice(half, None)))


def _apart(one: FloatArray, other: FloatArray) -> float:
    """Part of the pairs of two levels that differ as their medians do (Mann, Whitney 1947)."""
    below = np.searchsorted(np.sort(other), one)
    less = 1.0 - float(below.mean()) / len(other)
    return max(less, 1.0 - less)


def _large(found: Trend) -> bool:
    """Whether a change is worth a word."""
    return abs(found.after_s - found.before_s) >= STANDS_OUT * min(found.before_s, found.after_s)


def means(value: FloatArray, size: int) -> FloatArray:
    """Means of so many neighbours each; the last may be of fewer."""
    first = np.arange(0, len(value), size)
    return np.asarray(np.add.reduceat(value, first) / np.diff(np.append(first, len(value))))
