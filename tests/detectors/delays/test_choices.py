"""What ranks run instead of each other is compared as a whole: the excess is what the alternatives differ in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.choices import find_choices
from scalana.detectors.delays.contexts import ALONE, same_work
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.rollup.alone import join_alternatives
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.report.findings.claims import claim
from tests.detectors.simulator import sampled, simulate

STEPS = 50
PLAIN, BLOCKED, EXTRA, COMMON = "plain", "blocked", "extra", "common"


class Sibling(NamedTuple):
    """A part of the program between two calls of communication."""

    kind: VertexKind
    head: str
    runs: str = ""
    """The activity that is done in it."""
    site: int = 0


ARMS = (Sibling(VertexKind.BRANCH, "if simple:", PLAIN), Sibling(VertexKind.BRANCH, "else", BLOCKED))
RETURNS = (Sibling(VertexKind.BRANCH, "if simple:", PLAIN), Sibling(VertexKind.FUNCTION, "blocked", BLOCKED, 12))
METHODS = (
    Sibling(VertexKind.FUNCTION, "Plain.run", PLAIN, 11),
    Sibling(VertexKind.FUNCTION, "Blocked.run", BLOCKED, 11),
)
ONE_AFTER_THE_OTHER = (Sibling(VertexKind.LOOP, "for a in x", PLAIN), Sibling(VertexKind.LOOP, "for b in y", BLOCKED))


def structure(names: list[str], siblings: tuple[Sibling, ...]) -> tuple[PSG, dict[str, int]]:
    """A function with one part for what all do, one for what is done besides, and these."""
    psg = PSG()
    main = psg.add(VertexKind.FUNCTION, Place("/job/a.py", 1, 99, 0, "main"), 0)
    at: dict[str, int] = {}
    known = {sibling.runs for sibling in siblings}
    others = [Sibling(VertexKind.LOOP, f"for i in {name}", name) for name in (COMMON, EXTRA) if name not in known]
    for number, (kind, head, runs, site) in enumerate((*others, *siblings)):
        line = 20 + 10 * number
        called = Place("/job/a.py", site, site, 4, head) if site else None
        part = psg.add(kind, Place("/job/a.py", line, line + 8, 4, head), main, site=called)
        at[runs] = psg.add(VertexKind.COMP, Place("/job/a.py", line + 1, line + 7, 8, runs), part)
    for name in names:
        if name not in at:
            at[name] = psg.add(VertexKind.COMM, Place("/job/a.py", 80, 80, 4, name), main)
    return psg, at


def analyse(work: dict[int, dict[str, float]], siblings: tuple[Sibling, ...], period_s: float = 0.0):
    """The findings by activity, seconds of waiting by (activity, rank), and the numbers of the choices."""
    random = np.random.default_rng(1)
    everybody = list(range(len(work)))
    program = [[("coll", "barrier", everybody, -1)] for _ in everybody]
    for _ in range(STEPS):
        for rank, own in work.items():
            for name, ms in own.items():
                program[rank].append(("work", name, ms * float(np.exp(random.normal(0.0, 0.02)))))
            program[rank].append(("coll", "allreduce", everybody, -1))
    timeline, names = simulate(program)
    timeline = sampled(timeline, period_s) if period_s else timeline
    psg, at = structure(names, siblings)
    timeline.calls.vertex[:] = [at[names[vertex]] for vertex in timeline.calls.vertex.tolist()]
    activity = [names[vertex] for vertex in timeline.activities.vertex.tolist()]
    timeline.activities.vertex[:] = [at[name] for name in activity]
    timeline.activities.line[:] = [psg[at[name]].place.line for name in activity]
    waits, choice = find_waits(timeline), find_choices(timeline, psg)
    table = blame(timeline, waits, same_work(timeline, psg), choice)
    on: dict[tuple[str, int], float] = {}
    for location, target, seconds in zip(table.location, table.target, table.seconds, strict=True):
        if target < len(activity):
            on[activity[target], int(location)] = float(seconds)
    found = detect(timeline, psg, Waiting(waits, table, prepare(timeline), []))
    return (
        [(psg[finding.vertex].place.name, finding) for finding in found],
        on,
        dict(zip(activity, choice, strict=True)),
    )


@pytest.mark.parametrize("period_s", [0.0, 0.005])
@pytest.mark.parametrize("siblings", [ARMS, RETURNS, METHODS], ids=["arms", "returns", "methods"])
def test_the_slower_alternative_costs_what_they_differ_in(siblings: tuple[Sibling, ...], period_s: float) -> None:
    others = {rank: {COMMON: 10.0, BLOCKED: 30.0} for rank in (0, 2, 3)}
    found, on, choice = analyse({**others, 1: {COMMON: 10.0, PLAIN: 50.0}}, siblings, period_s)
    (name, finding), *rest = found
    assert (name, finding.ranks, rest) == (PLAIN, [1], [])
    assert choice[PLAIN] == choice[BLOCKED] != ALONE == choice[COMMON]
    assert finding.lost_s == pytest.approx(0.020 * 3 * STEPS, rel=0.1)
    assert finding.saving_s == pytest.approx(0.020 * STEPS, rel=0.1)
    assert finding.evidence.place.seconds_here == pytest.approx(0.050 * STEPS, rel=0.1)
    assert finding.evidence.instead.seconds == pytest.approx(0.030 * STEPS, rel=0.1)
    assert "in `" in claim(finding, 4) and "instead" in claim(finding, 4)


AND_THEN = (*ARMS, Sibling(VertexKind.LOOP, "for i in extra", EXTRA))


@pytest.mark.parametrize(
    "siblings", [ARMS, RETURNS, METHODS, AND_THEN], ids=["arms", "returns", "methods", "arms and then"]
)
def test_a_rank_with_the_faster_alternative_is_not_late_with_it(siblings: tuple[Sibling, ...]) -> None:
    """Rank 1 is late with something else: though only it runs the faster one, that is no part of its lateness."""
    others = {rank: {COMMON: 10.0, BLOCKED: 50.0} for rank in (0, 2, 3)}
    found, on, _ = analyse({**others, 1: {COMMON: 10.0, PLAIN: 30.0, EXTRA: 60.0}}, siblings)
    assert [(name, finding.ranks) for name, finding in found] == [(EXTRA, [1])]
    assert on[EXTRA, 1] > 0.95 * sum(on.values())


def test_a_branch_that_ranks_take_as_often_as_each_other_is_not_slower_on_one() -> None:
    """Rank 1 takes the one arm more often, the others the other arm: what both arms take together is the same."""
    work = {rank: {COMMON: 10.0, PLAIN: 20.0, BLOCKED: 40.0} for rank in (0, 2, 3)}
    found, on, _ = analyse({**work, 1: {COMMON: 10.0, PLAIN: 40.0, BLOCKED: 20.0, EXTRA: 15.0}}, ARMS)
    assert [(name, finding.ranks) for name, finding in found] == [(EXTRA, [1])]
    assert on.get((PLAIN, 1), 0.0) < 0.05 * sum(on.values())


def test_what_all_ranks_do_one_after_the_other_is_no_choice() -> None:
    work = {rank: {COMMON: 10.0, PLAIN: 20.0, BLOCKED: 20.0} for rank in range(4)}
    _, _, choice = analyse({**work, 1: {COMMON: 10.0, PLAIN: 40.0, BLOCKED: 20.0}}, ONE_AFTER_THE_OTHER)
    assert set(choice.values()) == {ALONE}


def test_one_alternative_in_several_contexts_is_one_cause() -> None:
    """A plain product, called from two places, where others run a blocked one; and a function of its own."""
    psg = PSG()
    works = []
    for number, name in enumerate(("plain", "plain", "other")):
        caller = psg.add(VertexKind.FUNCTION, Place("/job/a.py", 10 * number + 50, 10 * number + 59, 0, "caller"), 0)
        line = 5 if name == "plain" else 15
        function = psg.add(VertexKind.FUNCTION, Place("/job/a.py", line, line + 8, 0, name), caller)
        works.append(psg.add(VertexKind.COMP, Place("/job/a.py", line + 1, line + 1, 4, "x"), function))
    table: Any = SimpleNamespace(choice=np.array([0, 0, ALONE]), target=np.arange(3))
    timeline: Any = None  # what is joined is known by the structure alone
    blamed = BlamedRun(timeline, psg, table)
    found = [
        Candidate(blamed, CodeLocation(TargetKind.OWN, vertex, -1), np.array([row]), 3.0 - row, [1])
        for row, vertex in enumerate(works)
    ]
    joined = join_alternatives(found)
    assert [(one.lost_s, one.entries.tolist()) for one in joined] == [(5.0, [0, 1]), (1.0, [2])]
