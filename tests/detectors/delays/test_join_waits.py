"""A thread that rests until another one of its rank is done ends earlier when that one does."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.join_waits import join_waits
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks import late_ranks as late_ranks
from scalana.detectors.whatif.joins import shortened
from scalana.detectors.whatif.replay import Change, prepare
from tests.detectors.examples import work
from tests.detectors.jobs import structure
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
    return timeline, own.burst[own.activity == names.index("slow")]


def test_the_rest_of_a_thread_is_shorter_when_the_other_one_is_done_earlier():
    timeline, slow = job()
    joined = join_waits(timeline)
    assert len(joined) == 1
    replay = prepare(timeline)
    removed = np.zeros(len(timeline.calls) + len(timeline.locations))
    removed[slow] = 0.060
    change = Change.of(removed)
    measured, (mended,) = replay.run_ends_s([change])
    assert measured - mended == pytest.approx(0.0, abs=2e-3)
    earlier = timeline.calls.exit_s - replay.times_s(change)[1]
    measured, (mended,) = replay.run_ends_s([shortened(joined, change, earlier)])
    assert measured - mended == pytest.approx(0.060)


def test_who_works_meanwhile_or_has_no_other_thread_waits_for_none():
    assert len(join_waits(job(on_cpu=True)[0])) == 0
    timeline, _ = job()
    timeline.locations.rank[:] = range(3)
    assert len(join_waits(timeline)) == 0


@pytest.mark.parametrize("itself", [True, False])
def test_helpers_that_communicate_are_what_a_thread_rests_for(itself):
    """The main thread is sampled while a helper works: one whose own rows tell what it does, or one without any."""
    timeline, _ = job()
    own, activities = timeline.own, timeline.activities
    rest, note = (own.activity[own.burst == gap][0] for gap in (0, len(timeline.calls) + 1))
    activities.helper[rest] = True
    if itself:
        activities.vertex[rest], activities.line[rest] = activities.vertex[note], activities.line[note]
    assert len(join_waits(timeline)) == itself


def test_who_rests_until_another_thread_is_done_is_late_with_what_that_one_waits_for():
    """The main thread tells the workers that there is no more when the thread that hands out has all results."""
    ranks = [2, 3, 4]
    workers = [
        [("recv", 1), ("work", "chunk", 500.0 if rank == 3 else 50.0), ("send", 1), ("recv", 0)] for rank in ranks
    ]
    program = [
        [("work", "prepare", 50.0), ("work", "results", 450.0), *(("send", rank) for rank in ranks)],
        [*(("send", rank) for rank in ranks), *(("recv", rank) for rank in ranks)],
        *workers,
    ]
    timeline, names = simulate(program)
    timeline.ranks = 4
    timeline.locations.rank[:] = (0, 0, 1, 2, 3)
    timeline.locations.is_main[1] = False
    timeline.own.cpu_s[timeline.own.activity == names.index("results")] = 0.0
    waits = find_waits(timeline)
    table = blame(timeline, waits)
    assert float(table.seconds.sum()) == pytest.approx(waits.total_s)
    blamed = {names[int(timeline.activities.vertex[target])] for target in table.target.tolist() if target < len(names)}
    assert "chunk" in blamed and "results" not in blamed
    found = late_ranks.detect(timeline, structure(names), late_ranks.Waiting(waits, table, prepare(timeline), []))
    assert [(names[finding.line - 1], finding.ranks) for finding in found] == [("chunk", [2])]
