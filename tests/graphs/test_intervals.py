"""The interval algebra, compared with counting on a fine grid."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.arrays.intervals import common_length, common_share, gaps, hold, joined, length_between
from scalana.graphs.arrays.types import BoolArray, FloatArray

CELLS = 40
MIDDLES = np.arange(CELLS) + 0.5


def some(rng: np.random.Generator, count: int) -> FloatArray:
    """Intervals between whole numbers, in any order."""
    return np.sort(rng.integers(0, CELLS, (count, 2)), axis=1).astype(np.float64)


def cells(intervals: FloatArray) -> BoolArray:
    """Which unit cells lie in any of the intervals ``[cells]``."""
    inside = (intervals[:, :1] < MIDDLES) & (MIDDLES < intervals[:, 1:])
    return np.asarray(inside.any(axis=0))


@pytest.mark.parametrize("seed", range(20))
def test_the_algebra_agrees_with_counted_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = some(rng, seed % 7), some(rng, 5)
    one, other = joined(first), joined(second)
    assert (cells(one) == cells(first)).all() and one.shape == (len(one), 2)
    assert (one[1:, 0] > one[:-1, 1]).all()
    assert common_length(one, other) == common_length(other, one) == (cells(one) & cells(other)).sum()
    assert common_share(one, other) * cells(one).sum() == pytest.approx((cells(one) & cells(other)).sum())
    assert (hold(one, MIDDLES) == cells(one)).all()
    since, until = sorted(rng.integers(0, CELLS, 2).tolist())
    window = (MIDDLES > since) & (MIDDLES < until)
    between = gaps(one[:, 0], one[:, 1], since, until)
    assert (cells(between) == window & ~cells(one)).all() and (between[:, 1] > between[:, 0]).all()
    ordered = first[np.argsort(first[:, 0])]
    inside = length_between(ordered[:, 0], ordered[:, 1], np.array([since, 0.0]), np.array([until, CELLS]))
    assert inside.tolist() == [(window & cells(one)).sum(), cells(one).sum()]


def test_begins_and_ends_are_inside() -> None:
    assert hold(np.array([[1.0, 2.0], [4.0, 5.0]]), np.array([0.9, 1.0, 2.0, 3.0, 5.0, 5.1])).tolist() == [
        False, True, True, False, True, False,
    ]  # fmt: skip


def test_nothing_has_nothing_in_common() -> None:
    none = joined(np.zeros((0, 2)))
    assert none.shape == (0, 2) and not hold(none, MIDDLES).any()
    assert common_share(none, np.array([[0.0, 1.0]])) == common_share(np.array([[0.0, 1.0]]), none) == 0.0
    assert common_share(np.array([[1.0, 1.0]]), np.array([[0.0, 2.0]])) == 0.0
    assert gaps(none[:, 0], none[:, 1], 1.0, 3.0).tolist() == [[1.0, 3.0]]
