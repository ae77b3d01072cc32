"""A thread that communicates, and that is started in the middle of the run, is late with what was done before it."""

from __future__ import annotations

import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.forks import StartedThreads
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.whatif.replay import prepare
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

MAINS = [0, 2, 3, 4]


def pool(prepare_ms, *, together):
    """Rank 0 prepares, and starts a thread that hands out work (the second location) to three ranks; it then waits for
    the results. All mains meet at the beginning and at the end, if they meet at all."""
    meet = [("coll", "barrier", MAINS, -1)] if together else []
    results = 300.0
    worker = [*meet, ("recv", 1), ("work", "chunk", results), ("send", 1), *meet]
    manager = [*(("send", rank) for rank in MAINS[1:]), *(("recv", rank) for rank in MAINS[1:])]
    program = [
        [*meet, ("work", "prepare", prepare_ms), ("work", "results", results), *meet], manager, worker, worker, worker
    ]  # fmt: skip
    timeline, names = simulate(program, start_ms=[0.0, prepare_ms, 0.0, 0.0, 0.0])
    timeline.ranks = 4
    timeline.locations.rank[:] = (0, 0, 1, 2, 3)
    timeline.locations.is_main[1] = False
    rests = timeline.own.activity == names.index("results")
    timeline.own.cpu_s[rests] = 0.0
    return timeline, names


@pytest.mark.parametrize("together", [True, False])
def test_what_its_rank_did_before_it_started_a_thread_makes_that_late(together):
    timeline, names = pool(2000.0, together=together)
    waits = find_waits(timeline)
    table = blame(timeline, waits)
    assert float(table.seconds.sum()) == pytest.approx(waits.total_s)
    (finding, *others) = detect(timeline, structure(names), Waiting(waits, table, prepare(timeline), []))
    assert (names[finding.line - 1], finding.ranks) == ("prepare", [0])
    assert finding.lost_s == pytest.approx(6.0, rel=0.05)
    assert finding.saving_s == pytest.approx(2.0, rel=0.05)
    assert finding.evidence.as_dict()["seconds_here"] == pytest.approx(2.0, rel=0.05)
    assert "carried-in" not in [other.kind for other in others]


def test_where_a_thread_was_started():
    timeline, _ = pool(2000.0, together=True)
    started = StartedThreads.of(timeline)
    assert (started.location.tolist(), started.main.tolist()) == ([1], [0])
    assert started.burst.tolist() == [1] and started.into_s.tolist() == pytest.approx([2.0])
    assert len(StartedThreads.of(pool(0.0, together=True)[0])) == 0


def test_a_rest_behind_the_start_of_a_thread_is_none_of_its_lateness():
    """Mains start a thread and rest until it is done. What those threads exchange is late with one rank's own work."""
    steps = 10

    def thread(here, other, slow_ms):
        step = [("work", "usual", 10.0), ("work", "slow", slow_ms), ("send", other), ("recv", other)]
        return [("coll", "barrier", [1, 3], -1), *step * steps]

    def main(rest):
        return [("coll", "barrier", [0, 2], -1), ("work", rest, 430.0), ("coll", "barrier", [0, 2], -1)]

    program = [main("for usual"), thread(1, 3, 0.0), main("for slow"), thread(3, 1, 30.0)]
    timeline, names = simulate(program, start_ms=[0.0, 5.0, 0.0, 25.0])
    timeline.ranks = 2
    timeline.locations.rank[:] = (0, 0, 1, 1)
    timeline.locations.is_main[[1, 3]] = False
    own, activities = timeline.own, timeline.activities
    own.cpu_s[:], own.core_wait_s[:] = own.seconds, 0.0
    for place in ("usual", "slow"):
        rest, itself = names.index(f"for {place}"), names.index(place)
        own.cpu_s[own.activity == rest] = 0.0
        activities.helper[rest] = True
        activities.vertex[rest], activities.line[rest] = activities.vertex[itself], activities.line[itself]
    waits = find_waits(timeline)
    table = blame(timeline, waits)
    (finding,) = detect(timeline, structure(names), Waiting(waits, table, prepare(timeline), []))
    assert (names[finding.line - 1], finding.ranks) == ("slow", [1])
    assert finding.saving_s == pytest.approx(0.3, rel=0.1)
    assert finding.evidence.as_dict()["cpu_share"] == pytest.approx(1.0)
    assert finding.evidence.as_dict()["seconds_here"] == pytest.approx(0.3)
