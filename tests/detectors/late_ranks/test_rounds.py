"""The same line on different ranks at different times: who does it when, and what doing it together saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.late_ranks.rounds import without_shared
from scalana.graphs.host_cores import HostCores
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.report.findings.claims import claim
from tests.detectors.jobs import analysed, structure
from tests.detectors.simulator import simulate

STEPS = 20


def preparing(rounds, ranks=0, ms=1500.0, noise=0.02):
    """Ranks prepare in rounds, with a barrier between them, and then train."""
    ranks = ranks or max(rank for one in rounds for rank in one) + 1
    everyone = ("coll", "barrier", list(range(ranks)), -1)
    program = [[("work", "start", 300.0)] for _ in range(ranks)]
    random = np.random.default_rng(2)
    for one in rounds:
        for rank, actions in enumerate(program):
            if rank in one:
                actions.append(("work", "load", ms * float(np.exp(random.normal(0.0, noise)))))
            actions.append(everyone)
    for actions in program:
        for _ in range(STEPS):
            actions += [("work", "train", 50.0), ("coll", "allreduce", list(range(ranks)), -1)]
    return program


def end_s(program) -> float:
    return float(simulate(program)[0].locations.end_s.max())


def of_load(analysis):
    return [
        one for one in analysis.findings if one.function == "load" or one.kind in ("in-rounds", "late-ranks", "serial")
    ]


@pytest.mark.parametrize(
    "rounds", [[[0], [1, 2, 3]], [[0], [1], [2], [3]], [[0, 1], [2, 3]], [[2], [0, 1]], [[1], [0]]], ids=str
)
def test_the_rounds_and_what_one_round_saves(rounds: list[list[int]]) -> None:
    analysis = analysed(preparing(rounds))
    (finding,) = of_load(analysis)
    ranks = sorted(rank for one in rounds for rank in one)
    assert finding.kind == "in-rounds" and finding.ranks == ranks
    assert [turn.ranks for turn in finding.evidence.turns] == [sorted(one) for one in rounds]
    begins = [turn.begin_s for turn in finding.evidence.turns]
    assert begins == pytest.approx([0.3 + 1.5 * number for number in range(len(rounds))], abs=0.4)
    saved_s = end_s(preparing(rounds)) - end_s(preparing([ranks]))
    assert finding.saving_s == pytest.approx(saved_s, rel=0.05)
    assert "one after the other" in claim(finding, len(ranks))


@pytest.mark.parametrize(("cores", "saved_s"), [(1, 0.0), (2, 3.0), (4, 4.5)])
def test_ranks_that_compute_save_what_their_cores_allow(cores: int, saved_s: float) -> None:
    """Four ranks on one core take as long at the same time as one after the other."""
    timeline, names = simulate(preparing([[0], [1], [2], [3]], noise=0.0))
    psg = structure(names)
    shared = HostCores.of(["node0"] * 4, [frozenset(range(cores))] * 4)
    run = RunInfo(ranks=4, seconds=float(timeline.locations.end_s.max()), cores=shared)
    found = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)).findings
    (finding,) = [one for one in found if one.kind == "in-rounds"]
    assert finding.saving_s == pytest.approx(saved_s, abs=0.1)


def test_ranks_at_the_same_time_are_no_rounds() -> None:
    """One that takes longer is late among them."""
    program = preparing([[0, 1, 2, 3]])
    program[2].insert(1, ("work", "load", 6000.0))
    (finding,) = of_load(analysed(program))
    assert (finding.kind, finding.ranks) == ("late-ranks", [2]) and finding.evidence.turns is None


def test_what_workers_do_as_long_as_others_is_left_out_where_these_save_nothing() -> None:
    program = preparing([[0, 1, 2, 3]])
    program[2].insert(1, ("work", "load", 6000.0))
    (late,) = of_load(analysed(program))
    place = late.evidence.place
    assert place is not None
    alike = replace(late.evidence, place=replace(place, seconds_others=place.seconds_here))
    worth = replace(late, evidence=alike)
    some = [late, worth, replace(worth, saving_s=0.0)]
    timeline = simulate(program)[0]
    assert without_shared(some, timeline) == some
    assert without_shared(some, replace(timeline, role=np.array([0, 1, 1, 1]))) == [late, worth]


def test_one_rank_that_works_for_all_is_no_round() -> None:
    (finding,) = of_load(analysed(preparing([[0]], ranks=4)))
    assert finding.kind == "serial" and finding.ranks == [0]


def test_what_the_next_rank_needs_is_no_round() -> None:
    """A rank that waits for a message may need what is in it: it cannot begin earlier."""
    ranks = 4
    program = []
    for rank in range(ranks):
        actions = [("recv", rank - 1)] if rank else []
        actions += [("work", "load", 1000.0)] + ([("send", rank + 1)] if rank < ranks - 1 else [])
        program.append([*actions, ("coll", "barrier", list(range(ranks)), -1)])
    assert all(finding.kind != "in-rounds" for finding in analysed(program).findings)


def rebuilding(turn: Callable[[int, int], bool]):
    program = [[] for _ in range(4)]
    for step in range(40):
        for rank, actions in enumerate(program):
            actions.append(("work", "train", 30.0))
            if turn(step, rank):
                actions.append(("work", "rebuild", 40.0))
            actions.append(("coll", "allreduce", list(range(4)), -1))
    return program


def test_ranks_that_take_turns_in_every_step_are_late_in_turn() -> None:
    """It is not one stay of each: what is late is another rank in each step."""
    program = rebuilding(lambda step, rank: step % 4 == rank)
    (finding,) = analysed(program).findings
    assert finding.kind == "late-ranks" and finding.evidence.turns is None
    saved_s = end_s(program) - end_s(rebuilding(lambda step, rank: step % 4 == 0))
    assert finding.evidence.together_saving_s == pytest.approx(saved_s, rel=0.02)


def test_ranks_that_do_it_two_at_a_time_do_not_do_it_at_different_times() -> None:
    (finding,) = analysed(rebuilding(lambda step, rank: step % 2 == rank % 2)).findings
    assert finding.evidence.together_saving_s is None


def test_a_rank_that_is_slower_in_every_step_is_no_round() -> None:
    """Each of many short stretches is a slight part of a rank's time at the line."""
    program = [[] for _ in range(3)]
    for _ in range(60):
        for rank, actions in enumerate(program):
            actions += [("work", "train", 40.0 if rank == 1 else 22.0), ("coll", "allreduce", [0, 1, 2], -1)]
    (finding,) = analysed(program).findings
    assert (finding.kind, finding.ranks) == ("late-ranks", [1]) and finding.evidence.turns is None
    assert finding.evidence.together_saving_s is None
