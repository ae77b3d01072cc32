"""Where ranks share cores, more work shows as more waiting for a core."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.account import TimeSplit
from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.evidence import ModuleTime
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.description import computes_more, may_compute_more
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.contention import (
    CoreContention,
    calls_without_core_s,
    computes_in_turn,
    turns_s,
    without_turns,
)
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.paths import _name
from scalana.detectors.run import _turns_in_calls
from scalana.detectors.whatif.changes import IntervalExcess, _usual_rows
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.host_cores import HostCores
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind
from scalana.runtime.operations import BY_NAME
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate
from tests.known import evidence as known_evidence


def timeline(cpu_s: list[float], wait_s: list[float]) -> Any:
    """One stretch of work of the same activity on each rank, no calls."""
    ranks = len(cpu_s)
    own = SimpleNamespace(
        burst=np.arange(ranks),
        activity=np.zeros(ranks, np.int64),
        cpu_s=np.array(cpu_s),
        seconds=np.array(cpu_s) + np.array(wait_s),
        samples=np.ones(ranks, np.int64),
    )
    locations = _Locations(rank=np.arange(ranks), is_main=np.ones(ranks, np.bool_))
    activities = SimpleNamespace(helper=np.zeros(1, np.bool_), vertex=np.zeros(1, np.int64))
    calls = SimpleNamespace(location=np.zeros(0, np.int64))
    return SimpleNamespace(
        own=own, calls=calls, locations=locations, activities=activities, ranks=ranks, period_s=0.005
    )


def crowded(cpu_s: float, core_wait_s: float, ranks: int) -> Any:
    """A run of a second, in which every rank computed, and waited for a core, so long."""
    each = np.ones(ranks)
    own = SimpleNamespace(seconds=each, cpu_s=cpu_s * each, core_wait_s=core_wait_s * each)
    locations = SimpleNamespace(start_s=np.zeros(ranks), end_s=each, is_main=np.ones(ranks, np.bool_))
    return SimpleNamespace(own=own, locations=locations, ranks=ranks)


def found(kind: str, lost_s: float, **evidence: object) -> Finding:
    return Finding(kind, 1, "a.cc", 7, 7, "f", "loop", [3], lost_s, 0.5, 0.1, evidence=known_evidence(**evidence))


def hosts(ranks: int, cores: int) -> Any:
    return SimpleNamespace(ranks=ranks, cores=HostCores.of(["node"] * ranks, [frozenset(range(cores))] * ranks))


LITTLE, MUCH = {"seconds_here": 1.0, "seconds_others": 0.9}, {"seconds_here": 1.0, "seconds_others": 0.1}


@pytest.mark.parametrize(
    ("finding", "kept"),
    [
        (
            found(
                "late-ranks",
                0.5,
                cpu_share=0.01,
                core_wait_share=0.9,
                programs_share=0.13,
                sync_intervals=50.0,
                **LITTLE,
            ),
            False,
        ),
        (found("late-ranks", 0.5, cpu_share=0.3, core_wait_share=0.7, sync_intervals=50.0, **LITTLE), True),
        (found("late-ranks", 0.2, cpu_share=0.3, core_wait_share=0.7, sync_intervals=50.0, **LITTLE), False),
        (found("late-ranks", 0.2, cpu_share=0.3, core_wait_share=0.7, sync_intervals=50.0, **MUCH), True),
        (found("late-ranks", 0.2, cpu_share=0.3, core_wait_share=0.7, sync_intervals=1.0, **MUCH), False),
        (found("late-ranks", 0.2, cpu_share=0.0, core_wait_share=0.1, sync_intervals=9.0, **LITTLE), True),
        (found("waiting-for-core", 2.0, cpu_share=0.0, core_wait_share=1.0, sync_intervals=50.0, **LITTLE), False),
        (found("unresolved", 1.0), False),
        (found("unresolved", 2.5), True),
        (found("slow-transfer", 2.5), False),
        (found("carried-in", 0.1), True),
    ],
    ids=[
        "turns",
        "work",
        "little more work",
        "its own",
        "its own, once",
        "sleep",
        "no core",
        "late",
        "later",
        "slow",
        "start",
    ],
)
def test_turns_on_shared_cores_are_no_finding(finding: Finding, kept: bool) -> None:
    shared = crowded(0.2, 0.6, 8)
    assert bool(without_turns([finding], shared, hosts(8, 2))) is kept
    free = crowded(1.0, 0.0, 8)
    assert without_turns([finding], free, hosts(8, 8)) == [finding]


@pytest.mark.parametrize(
    ("here_s", "others_s", "steady", "module_s", "kept"),
    [
        (1.0, 0.4, 0.9, None, True),
        (1.0, 0.8, 0.9, None, False),
        (1.0, 0.4, 0.3, None, False),
        (1.0, 0.8, 0.9, (0.04, 0.01), True),
        (1.0, 0.8, 0.9, (0.04, 0.03), False),
    ],
    ids=["far more work", "perhaps a slow core", "in turn", "far more in a module", "no more in a module"],
)
def test_far_more_work_is_no_turn_though_it_is_a_small_part_of_the_run(
    here_s: float, others_s: float, steady: float, module_s: tuple[float, float] | None, kept: bool
) -> None:
    told: dict[str, object] = {"cpu_here": here_s, "cpu_others": others_s, "steady_share": steady, **LITTLE}
    if module_s is not None:
        here, others = module_s
        told["module_time"] = ModuleTime(
            seconds_here=0.1, seconds_others=0.1, steps=1, cpu_here=here, cpu_others=others
        )
    finding = found("late-ranks", 0.2, cpu_share=0.3, core_wait_share=0.7, sync_intervals=50.0, **told)
    assert bool(without_turns([finding], crowded(0.2, 0.6, 8), hosts(8, 2))) is kept


@pytest.mark.parametrize(
    ("kind", "lost_s", "kept"),
    [("slow-transfer", 2.5, False), ("unresolved", 0.3, False), ("unresolved", 2.5, True), ("late-ranks", 2.5, True)],
)
def test_ranks_take_turns_inside_calls_where_they_hardly_compute(kind: str, lost_s: float, kept: bool) -> None:
    finding = found(kind, lost_s, cpu_share=1.0, core_wait_share=0.0, programs_share=1.0, sync_intervals=50.0)
    waiting = crowded(0.2, 0.0, 8)
    assert bool(without_turns([finding], waiting, hosts(8, 2))) is kept
    assert without_turns([finding], waiting, hosts(8, 8)) == [finding]
    everybody = replace(found("unresolved", 2.5), ranks=list(range(8)))
    assert not without_turns([everybody], waiting, hosts(8, 2))
    assert without_turns([everybody], waiting, hosts(8, 8)) == [everybody]


@pytest.mark.parametrize(
    ("cores", "transfer_s", "told"), [(2, 3.0, True), (2, 0.5, False), (4, 3.0, False), (0, 3.0, False)]
)
def test_calls_that_take_long_where_ranks_share_cores_are_told(cores: int, transfer_s: float, told: bool) -> None:
    run: Any = SimpleNamespace(run=hosts(4, cores))
    said = _turns_in_calls(run, TimeSplit(work_s=1.0, wait_s=2.0, transfer_s=transfer_s))
    assert said == (["4 ranks on 2 cores: part of the time in calls (transfer) is waiting for a core"] if told else [])


@pytest.mark.parametrize(("sleeps", "kept"), [(True, True), (False, False)])
def test_ranks_that_sleep_in_turn_wait_for_a_core_when_they_wake_up(sleeps: bool, kept: bool) -> None:
    shares = {"cpu_share": 0.0, "core_wait_share": 0.4, "sleeps": sleeps, "programs_share": 0.6, "sync_intervals": 50.0}
    finding = replace(found("late-ranks", 2.0, **shares), ranks=list(range(8)))
    assert bool(without_turns([finding], crowded(0.2, 0.6, 8), hosts(8, 2))) is kept


@pytest.mark.parametrize(
    ("steady", "sync_intervals", "kept"),
    [(0.9, 50.0, True), (0.3, 50.0, False), (0.0, 1.0, True)],
    ids=["always", "in turns", "once"],
)
def test_a_rank_that_lacks_its_core_is_told_from_turns(steady: float, sync_intervals: float, kept: bool) -> None:
    """Threads outnumber the cores, of which there are as many as ranks."""
    finding = found("waiting-for-core", 2.0, steady_share=steady, sync_intervals=sync_intervals)
    assert bool(without_turns([finding], crowded(0.2, 0.6, 8), hosts(8, 8))) is kept


def test_what_computing_costs_where_cores_are_shared() -> None:
    assert CoreContention.of(crowded(0.2, 0.6, 4)) == CoreContention(True, pytest.approx(3.0))
    assert CoreContention.of(crowded(1.0, 0.01, 4)) == CoreContention(False, 0.0)


@pytest.mark.parametrize(
    ("cpu_s", "core_wait_s", "asleep_s", "part"),
    [
        ((0.1, -0.1, 0.1, -0.1), (0.9, -0.9, 0.9, -0.9), (0, 0, 0, 0), 0.0),  # whoever lacks a core is late
        ((0.1, 0.1, 0.1, 0.1), (0.3, 0.3, 0.3, 0.3), (0, 0, 0, 0), 1.0),  # more work waits for more turns
        ((0.1, 0.1, 0.1, 0.1), (0.7, 0.7, 0.7, 0.7), (0, 0, 0, 0), 0.5),
        ((0, 0, 0, 0), (0.1, -0.1, 0.1, -0.1), (0.4, 0.4, 0.4, 0.4), 1.0),  # sleep is the program's
    ],
)
def test_what_comes_by_chance_cancels_over_stretches(
    cpu_s: tuple[float, ...], core_wait_s: tuple[float, ...], asleep_s: tuple[float, ...], part: float
) -> None:
    cpu, core_wait = np.array(cpu_s), np.array(core_wait_s)
    none, rows = np.zeros(0, dtype=np.int64), np.zeros(4, dtype=np.int64)
    excess = IntervalExcess(
        none,
        np.zeros(0),
        rows,
        rows,
        rows,
        np.ones(4),
        np.ones(4),
        cpu + core_wait + np.array(asleep_s),
        cpu,
        core_wait,
    )
    assert CoreContention.of(crowded(0.2, 0.6, 4)).programs_part(excess) == pytest.approx(part)
    assert CoreContention.of(crowded(1.0, 0.01, 4)).programs_part(excess) == 1.0


def test_ranks_that_take_turns_in_sleeping_are_late_by_the_program() -> None:
    over, core_wait = np.array([0.4, -0.4, 0.4, -0.4]), np.array([0.1, -0.1, 0.1, -0.1])
    none, rows = np.zeros(0, dtype=np.int64), np.zeros(4, dtype=np.int64)
    excess = IntervalExcess(none, np.zeros(0), rows, rows, rows, np.ones(4), np.ones(4), over, np.zeros(4), core_wait)
    shared = CoreContention.of(crowded(0.2, 0.6, 4))
    assert shared.programs_part(excess) == 0.0
    assert shared.programs_part(replace(excess, asleep=True)) == pytest.approx(0.75)


def test_what_is_computed_is_compared_with_the_member_that_took_the_usual_time() -> None:
    """Two ranks take turns in being late for want of a core; it is chance who of them computed more."""
    event = np.repeat(np.arange(4), 2)
    did_s, cpu_s = np.array([9.0, 2, 8, 1, 1, 7, 3, 9]), np.array([3.0, 2, 0, 1, 0, 1, 3, 2])
    low, high = _usual_rows(event, did_s, np.ones(8, bool), 0.5)
    assert low.tolist() == high.tolist() == [1, 1, 3, 3, 4, 4, 6, 6]
    assert (cpu_s - cpu_s[low]).sum() == 0.0
    low, high = _usual_rows(np.zeros(5, np.int64), np.array([5.0, 3, 9, 2, 4]), np.arange(5) == 2, 0.5)
    assert {int(low[0]), int(high[0])} == {1, 4}  # 3 and 4 seconds


def test_waiting_is_compared_without_what_its_cause_waited_for_a_core() -> None:
    job, names = simulate(steps(4, 40, lambda step, rank: {"solve": 70.0 if rank == 0 else 10.0}))
    own = job.own
    late = own.seconds > 0.06
    own.core_wait_s[late] = own.seconds[late] * 3 / 7
    own.cpu_s[late] = own.seconds[late] * 4 / 7
    table = blame(job, find_waits(job))
    turns = turns_s(BlamedRun(job, structure(names), table))
    assert turns.sum() == pytest.approx(0.5 * table.seconds.sum(), rel=0.02)  # 30 of the 60 ms that it is late


def test_a_call_takes_as_long_as_its_payload_needs_and_what_is_beyond_waits_for_a_core() -> None:
    job, names = simulate([[("work", "solve", 10.0), ("coll", "allreduce", [0, 1], -1, 50.0)] for _ in range(2)])
    inside_s = job.call_s()
    assert not calls_without_core_s(inside_s, job).any()  # every rank has a core
    job.own.core_wait_s[:] = 0.5 * job.own.seconds
    assert calls_without_core_s(inside_s, job) == pytest.approx([0.049, 0.049])  # but for a millisecond
    job.calls.nbytes[0] = 40_000  # a message's size may be known to one side alone
    assert calls_without_core_s(inside_s, job) == pytest.approx([0.029, 0.029])
    job.calls.nbytes[:] = 1_000_000
    assert not calls_without_core_s(inside_s, job).any()


class _Locations(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.rank)


@pytest.mark.parametrize(
    ("cpu_s", "wait_s", "more"),
    [([1.0, 1.0, 1.0, 1.0], [0.1, 3.0, 0.1, 0.1], False), ([0.1, 1.0, 0.1, 0.1], [0.1, 3.0, 0.1, 0.1], True)],
    ids=["less of a core", "more work"],
)
def test_work_is_told_from_its_share_of_a_core(cpu_s: list[float], wait_s: list[float], more: bool) -> None:
    code_location: Any = SimpleNamespace(kind=TargetKind.OWN, vertex=0)
    table: Any = SimpleNamespace(
        target=np.array([0]),
        location=np.array([1]),
        seconds=np.array([1.0]),
        work=np.array([-1]),
        choice=np.array([-1]),
    )
    blamed = BlamedRun(timeline(cpu_s, wait_s), PSG(), table)
    assert computes_more(Candidate(blamed, code_location, np.array([0]), 1.0, [1])) is more


@pytest.mark.parametrize(
    ("cpu_s", "ranks", "more"),
    [
        ([0.6, 0.7, 0.6, 0.6], (1,), False),  # 140 samples, where 120 are usual
        ([6.0, 7.0, 6.0, 6.0], (1,), True),  # 1400, where 1200 are
        ([0.6, 0.6, 0.9, 0.9], (2, 3), True),
        ([0.0, 0.1, 0.0, 0.0], (1,), True),  # 20 samples, where there are none
        ([0.6, 0.6, 0.6, 0.6], (0, 1, 2, 3), True),  # in turn
    ],
)
def test_so_few_samples_more_come_by_chance(cpu_s: list[float], ranks: tuple[int, ...], more: bool) -> None:
    code_location: Any = SimpleNamespace(kind=TargetKind.OWN, vertex=0)
    table: Any = SimpleNamespace(
        target=np.array([0]),
        location=np.array([1]),
        seconds=np.array([1.0]),
        work=np.array([-1]),
        choice=np.array([-1]),
    )
    blamed = BlamedRun(timeline(cpu_s, [1.0] * 4), PSG(), table)
    assert may_compute_more(Candidate(blamed, code_location, np.array([0]), 1.0, list(ranks))) is more


def test_who_computes_no_more_than_others_is_late_for_want_of_a_core() -> None:
    none, rows = np.zeros(0, dtype=np.int64), np.zeros(4, dtype=np.int64)
    over, cpu = np.full(4, 0.4), np.full(4, 0.1)
    excess = IntervalExcess(none, np.zeros(0), rows, rows, rows, np.ones(4), np.ones(4), over, cpu, over - cpu)
    shared = CoreContention.of(crowded(0.2, 0.6, 4))
    assert shared.programs_part(excess) == pytest.approx(1.0)
    assert shared.programs_part(excess, computing=False) == 0.0


@pytest.mark.parametrize(
    ("over_cpu_s", "did_cpu_s", "computes"),
    [(0.1, 0.5, False), (0.1, 0.25, True), (0.3, 1.5, True)],
    ids=["a slow core", "another amount of work", "hardly for want of a core"],
)
def test_what_takes_a_little_longer_in_turn_may_be_on_a_slow_core(
    over_cpu_s: float, did_cpu_s: float, computes: bool
) -> None:
    none, rows, over = np.zeros(0, dtype=np.int64), np.zeros(4, dtype=np.int64), np.full(4, 0.4)
    did, cpu = np.full(4, did_cpu_s), np.full(4, over_cpu_s)
    excess = IntervalExcess(none, np.zeros(0), rows, rows, rows, np.ones(4), did, over, cpu, over - cpu)
    assert computes_in_turn(excess) is computes
    assert computes_in_turn(replace(excess, of_pieces=True))


@pytest.mark.parametrize("often", [(1, 1, 1, 1), (1, 1, 4, 4)], ids=["all alike", "some more often"])
@pytest.mark.parametrize(("late_ms", "lines"), [(14.0, []), (25.0, ["solve"])])
def test_a_slow_core_is_no_work_that_ranks_do_in_turn(late_ms: float, lines: list[str], often: tuple[int, ...]) -> None:
    """In each step another rank computes longer, beside what all of them wait for a core."""
    late = np.random.default_rng(5).choice(np.repeat(np.arange(4), often), 60)
    job, names = simulate(steps(4, 60, lambda step, rank: {"solve": 34.0 if late[step] != rank else 30.0 + late_ms}))
    own = job.own
    own.cpu_s[:] = np.where(own.seconds > 0.035, 1e-3 * late_ms, 0.01)
    own.core_wait_s[:] = own.seconds - own.cpu_s
    waits = find_waits(job)
    told = detect(job, structure(names), Waiting(waits, blame(job, waits), prepare(job), find_task_farms(job)))
    assert [names[finding.line - 1] for finding in without_turns(told, job, hosts(4, 2))] == lines


def test_lateness_without_a_line_is_told_only_if_the_run_would_be_shorter_without_it() -> None:
    finding = found("unresolved", 2.5)
    assert without_turns([finding], crowded(0.2, 0.6, 8), hosts(8, 2)) == [finding]
    assert not without_turns([replace(finding, saving_s=0.005)], crowded(0.2, 0.6, 8), hosts(8, 2))
    assert without_turns([replace(finding, saving_s=0.005)], crowded(1.0, 0.0, 8), hosts(8, 8))


def test_a_message_that_waits_for_its_partner_is_named_by_its_call() -> None:
    place = Place("a.c", 1, 1, 0, "MPI_Send")
    send, flush = (
        Vertex(1, VertexKind.COMM, place, 0, 0, operation=BY_NAME[name].code) for name in ("blocking_send", "win_flush")
    )
    assert _name(BY_NAME["win_flush"].code, send, False) == "blocking_send"
    assert _name(BY_NAME["win_flush"].code, flush, False) == "win_flush"
    assert _name(BY_NAME["win_post"].code, flush, False) == "win_flush"
    assert _name(BY_NAME["send"].code, send, False) == "recv"
    assert _name(BY_NAME["send"].code, send, True) == "send"
    assert _name(BY_NAME["blocking_send"].code, flush, False) == "recv"
    assert _name(BY_NAME["blocking_send"].code, send, True) == "blocking_send"
