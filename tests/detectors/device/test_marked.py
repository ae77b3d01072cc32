"""What a device did between marks, where it was looked at, and for how many steps a marked one stands."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.streams.marked import Marked, in_order, work_of
from scalana.detectors.streams.stretches import Stretches, clipped, without_overlap
from scalana.detectors.streams.weights import stood_for

NONE = np.zeros(0), np.zeros(0)


def floats(*values):
    return np.array(values, np.float64)


def stretches(*parts):
    start, end = zip(*parts, strict=True)
    return without_overlap(floats(*start), floats(*end), np.arange(len(parts)))


def listed(some: Stretches):
    return list(zip(some.start_s.tolist(), some.end_s.tolist(), some.what.tolist(), strict=True))


def test_outside_of_modules_a_stream_waits_for_what_cpp_waits_for():
    """A module until 2, a collective that is launched there and runs up to 5, and a module from 7 on, all of which was
    launched long before: from 5 to 7 the device works, and before it waits."""
    launched = floats(-3.0, -2.0, -1.0)
    marked = Marked(floats(0.0, 2.0, 7.0), floats(2.0, 2.0, 8.0), launched, launched, np.array([False, True, False]))
    begins, ends, inside = work_of(marked, NONE, (floats(2.0), floats(5.0)))
    assert list(zip(begins.tolist(), ends.tolist(), inside.tolist(), strict=True)) == [
        (0.0, 2.0, 0), (5.0, 7.0, -1), (7.0, 8.0, 2)
    ]  # fmt: skip


def test_a_host_that_waits_for_its_device_does_not_say_that_this_works_while_it_waits_for_others():
    """The host waits from 2 to 6 for all that it launched, of which a collective runs up to 5; what it launches at 9
    begins then."""
    launched, ended = floats(-3.0, -2.0, 9.0), floats(-3.0, -2.0, 9.5)
    marked = Marked(floats(0.0, 2.0, 9.0), floats(2.0, 2.0, 9.5), launched, ended, np.array([False, True, False]))
    begins, ends, inside = work_of(marked, (floats(2.0), floats(6.0)), (floats(2.0), floats(5.0)))
    assert list(zip(begins.tolist(), ends.tolist(), inside.tolist(), strict=True)) == [(0.0, 2.0, 0), (5.0, 6.0, -1)]


def test_marks_of_a_stream_come_in_the_order_in_which_the_host_put_them_there():
    """The last mark of a step, and the first of the next one, whose clock is 3 us behind; another stream has its own
    order."""
    marks, host = floats(5.0, 5.0 - 3e-6, 6.0, 4.0), floats(1.0, 2.0, 3.0, 2.5)
    assert in_order(marks, host, np.array([7, 7, 7, 8])).tolist() == [5.0, 5.0, 6.0, 4.0]


def test_inside_of_a_module_a_collective_hides_nothing():
    launched = floats(-2.0, -1.0)
    marked = Marked(floats(0.0, 1.0), floats(4.0, 1.0), launched, launched, np.array([False, True]))
    begins, ends, _ = work_of(marked, NONE, (floats(1.0), floats(3.0)))
    assert (ends - begins).sum() == pytest.approx(4.0)


def test_what_lies_in_windows():
    some = stretches((0.0, 4.0), (6.0, 9.0))
    assert listed(clipped(some, floats(1.0, 3.5), floats(2.0, 8.0))) == [
        (1.0, 2.0, 0), (3.5, 4.0, 0), (6.0, 8.0, 1)
    ]  # fmt: skip
    assert not len(clipped(some, floats(4.5), floats(5.5)))


@pytest.mark.parametrize(
    ("marked", "steps", "stand_for"),
    [
        ([1, 2, 3, 4], range(6), [1, 1, 1, 2]),
        ([1, 2, 3, 4, 15, 30], range(40), [1, 1, 1, 6, 13, 17]),
        ([7], range(10), [3]),
        ([2, 4], [0, 2, 3, 4, 5], [2, 2]),
        ([5], [], [1]),
        ([], range(4), []),
    ],
)
def test_steps_are_like_the_nearest_that_was_marked(marked, steps, stand_for):
    found = stood_for(np.array(marked, np.int64), np.array(steps, np.int64))
    assert found.tolist() == stand_for
    if marked and len(steps):
        assert found.sum() == sum(step >= marked[0] for step in steps)
