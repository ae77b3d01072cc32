"""When collectives began and ended on the devices, of marks and of how long their kernels took."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.streams.ends import Marks, end_together

UNKNOWN = -1.0


def ends(*parts):
    """Begins and ends of parts that are (rank, instance, communicator, came, went on, took)."""
    columns = list(zip(*parts, strict=True))
    whole = [np.array(column, np.int64) for column in columns[:3]]
    start, end = end_together(Marks(*whole, *(np.array(column, np.float64) for column in columns[3:])))
    return list(zip(start.tolist(), end.tolist(), strict=True))


def test_the_shortest_began_last_and_needs_no_clock():
    """The clock of rank 0 is 100 s ahead, and its stream goes on long after the end."""
    found = ends((0, 0, 0, 101.0, 109.0, 3.0), (1, 0, 0, 3.0, 8.0, 1.0))
    assert found == [(1.0, 4.0), (3.0, 4.0)]


def test_those_of_a_group_follow_each_other():
    """The stream comes to the second while the first is under way, which C++ waits for."""
    found = ends((0, 0, 0, 1.0, 1.0, 5.0), (1, 0, 0, 4.0, 4.0, 2.0), (0, 1, 0, 2.0, 2.0, 1.0), (1, 1, 0, 5.0, 5.0, 1.0))
    assert found == [(1.0, 6.0), (4.0, 6.0), (6.0, 7.0), (6.0, 7.0)]


def test_groups_do_not_hold_each_other_up():
    found = ends((0, 0, 0, 1.0, 1.0, 5.0), (0, 1, 1, 2.0, 2.0, 1.0))
    assert found == [(1.0, 6.0), (2.0, 3.0)]


def test_a_member_that_is_not_timed_began_when_its_stream_came():
    found = ends((0, 0, 0, 1.0, 9.0, 4.0), (1, 0, 0, 4.5, 9.0, UNKNOWN), (2, 0, 0, 2.0, 9.0, 3.0))
    assert found == [(1.0, 5.0), (4.5, 5.0), (2.0, 5.0)]


def test_without_durations_the_first_stream_that_goes_on_says_when():
    found = ends((0, 0, 0, 1.0, 9.0, UNKNOWN), (1, 0, 0, 4.0, 6.0, UNKNOWN), (2, 0, 0, 2.0, 2.0, UNKNOWN))
    assert found == [(1.0, 6.0), (4.0, 6.0), (2.0, 6.0)]
    assert ends((0, 0, 0, 1.0, 1.0, UNKNOWN), (1, 0, 0, 4.0, 4.0, UNKNOWN)) == [(1.0, 4.0), (4.0, 4.0)]


def test_nothing_is_nothing():
    nothing = np.empty(0, np.int64)
    start, end = end_together(Marks(nothing, nothing, nothing, *(np.empty(0) for _ in range(3))))
    assert len(start) == len(end) == 0


@pytest.mark.parametrize("seed", range(5))
def test_any_streams(seed):
    """Streams of 4 ranks that take any time between collectives, and go on at once after each."""
    random = np.random.default_rng(seed)
    ranks, calls = 4, 50
    now, parts, truth = np.zeros(ranks), [], []
    for call in range(calls):
        now += random.exponential(1.0, ranks)
        end = now.max() + 0.25
        parts += [(rank, call, 0, now[rank], end, end - now[rank]) for rank in range(ranks)]
        truth += [(begin, end) for begin in now.tolist()]
        now[:] = end
    assert np.array(ends(*parts)) == pytest.approx(np.array(truth))
