"""Rounds of marked steps, without what the marks cost their hosts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.whatif.device_rounds import Parts, Round
from scalana.detectors.whatif.moments import Links, Moments
from scalana.detectors.whatif.unmarked import mark_cost_s, unmarked_step_s, without_marks
from scalana.graphs.steps.steps import Steps

US = 1e-6
NONE = Parts(*(np.zeros(0, np.int64) for _ in range(3)), np.zeros(0), np.zeros(0))


def round_of(launches: int, host_us: float, device_us: float, marks: int) -> Round:
    """A host that launches so many kernels one after the other, each after ``host_us`` with some marks, and a device
    that carries them out."""
    host_s = np.arange(launches + 1) * host_us * US
    begin_s = np.zeros(launches)
    for number in range(launches):
        before = begin_s[number - 1] + device_us * US if number else 0.0
        begin_s[number] = max(host_s[number + 1], before)
    end_s = begin_s + device_us * US
    hosts, begins = np.arange(launches + 1), launches + 1 + np.arange(launches)
    ends = begins + launches
    links = [
        (hosts[1:], hosts[:-1], host_us * US, False),
        (hosts[:1], hosts[-1:], 0.0, True),
        (begins, hosts[1:], 0.0, False),
        (begins[1:], ends[:-1], 0.0, False),
        (begins[:1], ends[-1:], 0.0, True),
        (ends, begins, device_us * US, False),
    ]
    columns = [np.concatenate([np.zeros(len(one[0])) + one[column] for one in links]) for column in range(4)]
    later, earlier, behind = columns[0].astype(np.int64), columns[1].astype(np.int64), columns[3].astype(np.bool_)
    tie = np.concatenate((np.ones(launches + 1), np.full(launches, 2), np.zeros(launches))).astype(np.int64)
    round_s = max(host_s[-1], launches * device_us * US)
    at_s = np.concatenate((host_s, begin_s, end_s))
    moments, where = Moments.of(at_s, tie, round_s, Links(later, earlier, columns[2], behind))
    number = np.zeros(len(moments.links.seconds), np.int64)
    number[where[:launches]] = marks
    rank = np.zeros(launches, np.int64)
    host = Parts(where[:launches], rank, rank, host_s[:-1], np.full(launches, host_us * US))
    idle = np.array([max(round_s - launches * device_us * US, 0.0)])
    zero = np.zeros(1)
    return Round(moments, 1, zero, zero + round_s, host, NONE, NONE, NONE, NONE, replace(host), idle, number)


def test_marks_cost_what_marked_steps_take_longer() -> None:
    marked = [round_of(20, 100.0, 30.0, 2), round_of(20, 100.0, 30.0, 2)]
    assert mark_cost_s(marked, 20 * 60 * US) == pytest.approx(20 * US, rel=2e-3)
    for one in without_marks(marked, 20 * 60 * US):
        assert one.moments.round_s == pytest.approx(20 * 60 * US, rel=2e-3)
        assert one.host.seconds.sum() == pytest.approx(20 * 60 * US, rel=2e-3)
        assert one.idle_s[0] == pytest.approx(20 * 30 * US, rel=3e-3)
        assert one.moments.critical_s().sum() == pytest.approx(one.moments.round_s, rel=3e-3)
        # Without half of what the host does, the device decides.
        assert one.moments.changed_round_s(one.moments.links.seconds * (one.marks > 0) * 0.6) == pytest.approx(
            20 * 30 * US, rel=3e-3
        )


def test_where_the_device_decides_marks_cost_nothing() -> None:
    marked = [round_of(20, 50.0, 80.0, 2)]
    assert mark_cost_s(marked, 20 * 80 * US) == 0.0
    assert without_marks(marked, 20 * 80 * US)[0] is marked[0]


def test_where_marks_do_not_explain_it_marked_steps_say_nothing() -> None:
    """Other steps take less than the device works, as of a job that does less in them."""
    marked = [round_of(20, 100.0, 30.0, 2)]
    assert mark_cost_s(marked, 5 * 30 * US) is None
    assert without_marks(marked, 5 * 30 * US) == []
    assert without_marks(marked, None)[0] is marked[0]


def test_a_usual_step_is_neither_marked_nor_next_to_one() -> None:
    takes_s = np.array([9.0, 9.0, 1.0, 1.0, 3.0, 0.5, 1.0, 1.0])
    end_s = np.cumsum(takes_s)[:, None]
    steps = Steps("marks", np.arange(len(takes_s)), end_s - takes_s[:, None], end_s, 2)
    assert unmarked_step_s(steps, np.array([4])) == pytest.approx(1.0)
    assert unmarked_step_s(steps, np.arange(8)) is None
