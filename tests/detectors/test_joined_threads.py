"""A thread that rests until another one of its rank is done ends earlier when that one does."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.joined_threads import joined_threads
from scalana.detectors.replay import Change, prepare
from tests.detectors.examples import work
from tests.detectors.simulator import simulate


def job(on_cpu=False):
    """Rank 0 has two threads: the second has a message from rank 1, whose work is slow; the first rests until then, and
    tells rank 1 that it is over."""
    timeline, names = simulate(
        [
            [*work(rest=102), ("send", 2)],
            [("recv", 2), *work(note=1)],
            [*work(slow=100), ("send", 1), ("recv", 0)],
        ]
    )
    timeline.locations.rank[:] = (0, 0, 1)
    own = timeline.own
    resting = own.activity == names.index("rest")
    own.cpu_s[:] = np.where(resting & (not on_cpu), 0.0, own.seconds)
    own.core_wait_s[:] = 0.0
    return timeline, own.gap[own.activity == names.index("slow")]


def test_the_rest_of_a_thread_is_shorter_when_the_other_one_is_done_earlier():
    timeline, slow = job()
    joined = joined_threads(timeline)
    assert len(joined) == 1
    replay = prepare(timeline)
    removed = np.zeros(len(timeline.calls) + len(timeline.locations))
    removed[slow] = 0.060
    change = Change.of(removed)
    measured, (mended,) = replay.run_ends_s([change])
    assert measured - mended == pytest.approx(0.0, abs=2e-3)
    earlier = timeline.calls.exit_s - replay.times_s(change)[1]
    measured, (mended,) = replay.run_ends_s([joined.shortened(change, earlier)])
    assert measured - mended == pytest.approx(0.060)


def test_who_works_meanwhile_or_has_no_other_thread_waits_for_none():
    assert len(joined_threads(job(on_cpu=True)[0])) == 0
    timeline, _ = job()
    timeline.locations.rank[:] = range(3)
    assert len(joined_threads(timeline)) == 0
