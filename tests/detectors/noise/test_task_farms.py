"""Ranks that take the next task when they are free are compared by task, not by all that they do."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.late_ranks.masked import next_cause
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.rollup.candidates import join_entries
from scalana.detectors.slow_workers import detector as slow_workers
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.readers.processes.process_names import ProcessNames
from tests.detectors.jobs import analyse, analysed, structure
from tests.detectors.simulator import sampled, simulate

WORKERS = 3
PIECES = 240
MERGE_MS = 0.3


def farm(cost, rounds=1, pieces=PIECES, *, merge_ms=MERGE_MS, asks=False, noise=0.03):
    """A manager that hands a piece to whoever hands one in, and does something with what came.

    It does so in rounds, of each of which it sums up all. Workers may ask for what they sent before, first.
    """
    random = np.random.default_rng(3)
    ranks = range(WORKERS + 1)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
    now = 0.0
    for _ in range(rounds):
        done = []
        given = 0
        while given < pieces or done:
            if given < pieces and len(done) < WORKERS:
                worker = min(set(ranks[1:]) - {busy for _, busy in done})
                ms = cost(given, worker) * float(np.exp(random.normal(0.0, noise)))
                program[0].append(("send", worker))
                complete = [("test",)] if asks and ("send", 0) in program[worker] else []
                program[worker] += [("recv", 0), ("work", "chunk", ms), *complete, ("send", 0)]
                heapq.heappush(done, (now + ms, worker))
                given += 1
                continue
            ready, worker = heapq.heappop(done)
            now = max(now, ready) + merge_ms
            program[0] += [("recv", worker), ("work", "merge", merge_ms)]
    return [[*steps, ("coll", "barrier", list(ranks), -1)] for steps in program]


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_workers_whose_pieces_are_alike_are_not_late_however_many_they_do(period_s):
    findings = analyse(farm(lambda piece, worker: 20.0, rounds=30, pieces=5), period_s=period_s)[0]
    assert "chunk" not in [name for name, _ in findings]


def test_workers_that_ask_for_earlier_messages_before_they_hand_in_a_piece_are_not_late():
    program = farm(lambda piece, worker: 20.0, rounds=30, pieces=5, asks=True)
    (pool,) = [pool for pool in find_task_farms(simulate(program)[0]) if pool.ranks == [1, 2, 3]]
    assert len(pool.handing) == 2
    assert "chunk" not in [name for name, _ in analyse(program)[0]]


def test_who_hands_out_may_work_before_the_same_calls():
    """As where a library's one call is all that the manager and the workers do."""

    def pools(merge_ms):
        timeline, names = simulate(farm(lambda piece, worker: 20.0, merge_ms=merge_ms))
        return [names[pool.vertex] for pool in find_task_farms(timeline) if pool.giver == 0]

    assert pools(2.0) == ["send"]
    assert pools(8.0) == []  # that is a rank among others, which exchange what they have


def one_more(together):
    """Every round one worker gets two pieces, the others one; all at once, or one after the other."""
    ranks = range(WORKERS + 1)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]

    def give(worker):
        program[0].append(("send", worker))
        program[worker] += [("recv", 0), ("work", "chunk", 20.0), ("send", 0)]

    for _ in range(60):
        if together:
            for worker in ranks[1:]:
                give(worker)
        for place, worker in enumerate((1, 2, 3, 1)):
            if not together or place == 3:
                give(worker)
            program[0] += [("recv", worker), ("work", "merge", 0.1)]
    return [[*steps, ("coll", "barrier", list(ranks), -1)] for steps in program]


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_a_worker_that_takes_one_piece_more_is_not_late(period_s):
    assert analyse(one_more(together=True), period_s=period_s)[0] == []


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_pieces_that_are_handed_out_one_after_the_other_are_found(period_s):
    ((name, finding), *_) = analyse(one_more(together=False), period_s=period_s)[0]
    assert (name, finding.ranks) == ("chunk", [1, 2, 3])


@pytest.mark.parametrize("slow_ms", [28.0, 60.0])
@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_workers_that_do_more_because_another_is_slow_are_not_late(period_s, slow_ms):
    """Nor is the slow one, which is told by itself if it is much slower."""
    findings = analyse(farm(lambda piece, worker: slow_ms if worker == 2 else 20.0, 20, 12), period_s=period_s)[0]
    assert "chunk" not in [name for name, _ in findings]


@pytest.mark.parametrize(("even", "alike"), [(False, True), (True, False)])
def test_who_is_a_little_slower_and_does_fewer_pieces_is_like_the_others(even, alike):
    """As it would not be if it did as many."""
    program = farm(lambda piece, worker: 28.0 if worker == 2 else 20.0, *((80, 3) if even else (1, PIECES)))
    pool = max(find_task_farms(simulate(program)[0]), key=lambda pool: pool.seconds.sum())
    assert not pool.slow().any()
    assert pool.alike([1, 2, 3]) == alike


def test_processes_of_several_roles_are_no_pool():
    """One process calls judges and a generator: who does one cannot do the other."""
    timeline = simulate(farm(lambda piece, worker: 60.0 if worker == 3 else 20.0))[0]
    (whole,) = find_task_farms(timeline)
    assert whole.ranks == [1, 2, 3] and whole.slow().tolist() == [False, False, True]
    names = ProcessNames(("driver", "judge", "judge", "generator"), (-1, 0, 1, 0))
    found = find_task_farms(timeline, names=names)
    assert [farm.ranks for farm in found] == [[1, 2]] and not found[0].slow().any()


def test_a_piece_for_which_all_others_wait_is_found():
    findings = analyse(farm(lambda piece, worker: 3000.0 if piece == PIECES - 1 else 20.0))[0]
    assert "chunk" in [name for name, _ in findings]


def test_of_a_long_piece_that_begins_last_it_is_said_what_the_longest_first_saves():
    def run(costs):
        return farm(lambda piece, worker: costs[piece], pieces=len(costs), noise=0.001)

    def ended_s(costs):
        return float(simulate(run(costs))[0].locations.end_s.max())

    costs = [20.0] * 60 + [900.0]
    finding = analysed(run(costs)).findings[0]
    pool, tail = finding.evidence.pool, finding.evidence.tail
    assert pool is not None and (pool.workers, pool.tasks) == (WORKERS, len(costs)) and len(finding.ranks) == 1
    saved_s = ended_s(costs) - ended_s(costs[::-1])
    assert pool.longest_first_s == pytest.approx(saved_s, rel=0.05)
    assert tail is not None and (tail.tail_tasks, tail.tail_last) == (1, "task #60")
    assert "the longest first" in finding.advice


def test_ranks_that_wait_for_each_other_are_no_farm_with_another_order():
    """Every worker gets as many pieces, whatever it is."""
    program = [*one_more(together=False)]
    assert [farm.order for farm in find_task_farms(simulate(program)[0]) if farm.order is not None] == []


def test_pieces_that_are_dealt_out_beforehand_and_not_evenly_are_found():
    """Each worker asks for one piece after another, but one of them for more."""
    ranks = range(WORKERS + 1)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
    for piece in range(120):
        for worker in [3] if piece >= 40 else ranks[1:]:
            program[0].append(("send", worker))
            program[worker] += [("recv", 0), ("work", "chunk", 20.0), ("send", 0)]
        program[0] += [("recv", worker) for worker in ([3] if piece >= 40 else ranks[1:])]
    program = [[*steps, ("coll", "barrier", list(ranks), -1)] for steps in program]
    ((name, finding), *_) = analyse(program)[0]
    assert name == "chunk"
    assert 3 in finding.ranks


def test_what_another_thread_of_the_manager_does_meanwhile_is_beside_the_pool():
    """Its main thread waits for the results, and tells the workers at last that there is no more."""
    program = [*farm(lambda piece, worker: 20.0), [("work", "results", 2000.0), *[("send", w) for w in (1, 2, 3)]]]
    program[1:4] = [[*steps, ("recv", WORKERS + 1)] for steps in program[1:4]]
    timeline, names = simulate(program)
    assert not [pool for pool in find_task_farms(timeline) if names[pool.vertex] == "send"]
    timeline.locations.rank[:] = (0, 1, 2, 3, 0)
    (pool,) = [pool for pool in find_task_farms(timeline) if names[pool.vertex] == "send"]
    assert (pool.giver, pool.ranks, len(pool.burst)) == (0, [1, 2, 3], PIECES)


def test_large_tasks_are_found_where_another_thread_of_the_manager_waits_for_the_results():
    """In each round one piece takes ten times as long; the others are done before it is."""
    program = farm(lambda piece, worker: 200.0 if piece == 5 else 20.0, 12, 12)
    plain = farm(lambda piece, worker: 20.0, 12, 12)
    whole_ms = float(simulate(program)[0].locations.end_s.max()) * 1e3
    program.append([("work", "results", whole_ms), *[("send", worker) for worker in (1, 2, 3)]])
    program[1:4] = [[*steps, ("recv", WORKERS + 1)] for steps in program[1:4]]
    timeline, names = simulate(program)
    timeline.locations.rank[:] = (0, 1, 2, 3, 0)
    timeline.own.cpu_s[timeline.own.activity == names.index("results")] = 0.0
    waits, replay = find_waits(timeline), prepare(timeline)
    table = blame(timeline, waits)
    (finding,) = detect(timeline, structure(names), Waiting(waits, table, replay, find_task_farms(timeline)))
    assert (names[finding.line - 1], finding.ranks) == ("chunk", [1, 2, 3])
    assert finding.evidence.as_dict()["large_tasks"] == 12
    assert finding.evidence.as_dict()["large_tasks_over_s"] == pytest.approx(12 * 0.180, rel=0.1)
    saved_s = whole_ms / 1e3 - float(simulate(plain)[0].locations.end_s.max())
    assert finding.saving_s == pytest.approx(saved_s, rel=0.3)
    candidates = join_entries(BlamedRun(timeline, structure(names), table))
    chunk = next(c for c in candidates if c.ranks == [1, 2, 3])
    assert next_cause(chunk, {c.code_location: c.lost_s for c in candidates}, replay) is None


def slow(program, period_s=0.0):
    timeline, names = simulate(program)
    if period_s:
        timeline = sampled(timeline, period_s)
    table = blame(timeline, find_waits(timeline))
    return [
        (names[f.line - 1], f)
        for f in slow_workers.detect(find_task_farms(timeline), BlamedRun(timeline, structure(names), table))
    ]


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_a_worker_that_takes_longer_for_a_piece_is_named_although_it_does_fewer(period_s):
    ((name, finding),) = slow(farm(lambda piece, worker: 60.0 if worker == 2 else 20.0), period_s)
    assert (name, finding.kind, finding.ranks) == ("chunk", "slow-worker", [2])
    assert finding.evidence.as_dict()["task_s_here"] == pytest.approx(0.060, rel=0.1)
    assert finding.evidence.as_dict()["task_s_others"] == pytest.approx(0.020, rel=0.1)
    assert finding.lost_s == pytest.approx(0.040 * finding.evidence.as_dict()["tasks_here"], rel=0.1)
    assert finding.saving_s == pytest.approx(finding.lost_s / WORKERS)


def test_no_worker_is_slow_by_pieces_that_are_larger_for_whoever_gets_them():
    assert slow(farm(lambda piece, worker: 200.0 if piece % 30 == 7 else 20.0)) == []


def test_a_worker_that_does_as_many_pieces_as_the_others_did_not_take_them_when_it_was_free():
    """Here the others wait for it, which is what is told then."""
    ranks = range(WORKERS + 1)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
    for _ in range(60):
        for worker in ranks[1:]:
            program[0].append(("send", worker))
            program[worker] += [("recv", 0), ("work", "chunk", 60.0 if worker == 2 else 20.0), ("send", 0)]
        program[0] += [("recv", worker) for worker in ranks[1:]]
    assert slow(program) == []
    assert any(name == "chunk" and 2 in finding.ranks for name, finding in analyse(program)[0])
