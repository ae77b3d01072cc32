"""Calls that a thread of the same process holds up by the interpreter's lock."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.wait_states import find_waits
from scalana.runtime.record.format import STATE_RUNNING
from tests.graphs.runs import FILE, LINES, MS, build, make_ranks

STEPS = 20


def program(folder, held, *, helper=True):
    """Ranks 0 to 2 meet every 100 ms; in every second step a thread of rank 1 keeps the lock for 50 ms then.

    ``held(rank)`` gives for such a step by how much (ms) the end of a rank's call comes later.
    """
    ranks = make_ranks(folder, 3)
    for rank in ranks:
        busy = rank.frame(rank.frame(0, FILE, "<module>", 40), FILE, "load", LINES["load"])
        rank.writer.thread(1, 900)
        for step in range(STEPS):
            begin = 1000 + 100 * (step + 1)
            rank.work("step", begin - rank.now)
            late = step % 2 == 1
            if late and helper and rank.rank == 1:
                for tick in range(begin, begin + 50, 5):
                    rank.writer.sample(1, tick * MS + MS, busy, 5000, 0, STATE_RUNNING)
            rank.call("allreduce", begin + 1 + (held(rank.rank) if late else 0), seq=step)
        rank.end()
    return build(folder).timeline


def helped_ms(timeline):
    """Work of helpers, by rank."""
    own = timeline.own
    location = np.concatenate([timeline.calls.location, np.arange(len(timeline.locations))])[own.burst]
    seconds = np.where(timeline.activities.helper[own.activity], own.seconds, 0.0)
    return 1e3 * np.bincount(location, weights=seconds, minlength=3)


def test_a_call_that_was_held_up_on_its_way_came_later(tmp_path):
    timeline = program(tmp_path, lambda rank: 50)
    assert find_waits(timeline).total_s == pytest.approx(2 * 10 * 0.050, rel=0.02)
    assert helped_ms(timeline) == pytest.approx([0, 500, 0], rel=0.1)


def test_a_call_that_was_held_up_at_its_end_was_done_before(tmp_path):
    timeline = program(tmp_path, lambda rank: 50 if rank == 1 else 0)
    assert (timeline.calls.exit_s - timeline.calls.enter_s).max() == pytest.approx(0.001)
    assert helped_ms(timeline) == pytest.approx([0, 500, 0], rel=0.1)


@pytest.mark.parametrize("held", [lambda rank: 50, lambda rank: 50 if rank == 1 else 0], ids=["all", "one"])
def test_without_such_a_thread_calls_last_as_long_as_they_did(tmp_path, held):
    timeline = program(tmp_path, held, helper=False)
    assert (timeline.calls.exit_s - timeline.calls.enter_s).max() == pytest.approx(0.051)
    assert find_waits(timeline).total_s == 0.0
