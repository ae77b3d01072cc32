"""A function that ranks of different roles call at lines of their own is the same work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.contexts import ALONE, same_work
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.structure.psg import Place
from tests.detectors.jobs import structure
from tests.detectors.simulator import sampled, simulate

ROUNDS = 60
RANKS = 4
KERNEL = Place("/job/kernel.c", 7, 9, 0, "kernel")
OF_ROOT, OF_OTHERS, EXTRA = "kernel of the root", "kernel of the others", "kernel once more"


def rounds(own_ms):
    """In every round each rank computes its share, the root collects these, and hands out what comes of it."""
    random = np.random.default_rng(1)
    program = [[("coll", "barrier", list(range(RANKS)), -1)] for _ in range(RANKS)]
    for _ in range(ROUNDS):
        for rank in range(RANKS):
            share = {(OF_OTHERS if rank else OF_ROOT): 30.0, **own_ms.get(rank, {})}
            for name, ms in share.items():
                program[rank].append(("work", name, ms * float(np.exp(random.normal(0.0, 0.02)))))
        program[0] += [("recv", rank) for rank in range(1, RANKS)]
        program[0] += [("send", rank) for rank in range(1, RANKS)]
        for rank in range(1, RANKS):
            program[rank] += [("send", 0), ("recv", 0)]
    return program


def analyse(own_ms, period_s=0.0):
    """The findings by name, and the seconds of waiting that are put on every name."""
    timeline, names = simulate(rounds(own_ms))
    if period_s:
        timeline = sampled(timeline, period_s)
    psg = structure(names)
    for index, name in enumerate(names):
        if name.startswith("kernel"):
            psg.vertices[index] = replace(psg[index], place=KERNEL)
            timeline.activities.line[index] = KERNEL.line
    waits = find_waits(timeline)
    table = blame(timeline, waits, same_work(timeline, psg))
    on = {names[target]: 0.0 for target in table.target.tolist() if target < len(names)}
    for target, seconds in zip(table.target.tolist(), table.seconds.tolist(), strict=True):
        if target < len(names):
            on[names[target]] += seconds
    found = detect(timeline, psg, Waiting(waits, table, prepare(timeline), find_task_farms(timeline)))
    return [(names[finding.vertex], finding) for finding in found], on


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_what_a_root_computes_as_the_others_do_makes_nobody_wait(period_s: float) -> None:
    """What it does besides does, and is all that it is blamed for."""
    ((name, finding),), on = analyse({0: {"sum": 6.0}}, period_s)
    assert (name, finding.ranks, finding.kind) == ("sum", [0], "serial")
    assert on["sum"] > 0.8 * sum(on.values())
    assert on["sum"] == pytest.approx(0.006 * (RANKS - 1) * ROUNDS, rel=0.2)


def test_a_rank_that_computes_more_is_compared_with_the_root_as_well() -> None:
    (((name, finding), *_), _) = analyse({2: {OF_OTHERS: 45.0}})
    assert (name, finding.ranks) == (OF_OTHERS, [2])
    assert finding.evidence.as_dict()["seconds_here"] == pytest.approx(0.045 * ROUNDS, rel=0.05)
    assert finding.evidence.as_dict()["seconds_others"] == pytest.approx(0.030 * ROUNDS, rel=0.05)


def test_who_calls_it_once_more_does_so_at_that_line() -> None:
    (((name, finding), *_), on) = analyse({2: {EXTRA: 15.0}})
    assert (name, finding.ranks) == (EXTRA, [2])
    assert on[EXTRA] > 0.9 * sum(on.values())


def test_only_what_stands_in_several_contexts_is_numbered() -> None:
    timeline, names = simulate(rounds({0: {"sum": 6.0}}))
    psg = structure(names)
    for index, name in enumerate(names):
        if name.startswith("kernel"):
            psg.vertices[index] = replace(psg[index], place=KERNEL)
            timeline.activities.line[index] = KERNEL.line
    work = dict(zip(names, same_work(timeline, psg).tolist(), strict=True))
    assert work[OF_ROOT] == work[OF_OTHERS] == 0
    assert work["sum"] == ALONE
