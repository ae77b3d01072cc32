"""Parts of one cause that a caller and what it calls hold are one candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.rollup.candidates import Candidate, _join_called
from scalana.detectors.rollup.named_place import CodeLocation, _of_lines
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate

ROOT, SOLVE, LOOP, ROW, AT, AT_LINE, OUTSIDE, OUTSIDE_LINE, SLEEPS, SLEEP, BESIDE = range(11)


def program(file: str) -> PSG:
    """A function with a loop that calls ``at`` in each round, and beside it calls ``width`` and ``rest``. The line that
    calls ``at`` calls a library, too."""
    psg = PSG()
    psg.vertices.clear()

    def add(kind: VertexKind, line: int, name: str, parent: int, site: int = 0) -> None:
        index = len(psg.vertices)
        where = Place(file, site, site, 0, "") if site else None
        psg.vertices.append(Vertex(index, kind, Place(file, line, line, 0, name), parent, 0, site=where))
        if parent >= 0:
            psg.vertices[parent].children.append(index)

    add(VertexKind.ROOT, 0, "", -1)
    add(VertexKind.FUNCTION, 10, "solve", ROOT, site=90)
    add(VertexKind.LOOP, 12, "for", SOLVE)
    add(VertexKind.COMP, 13, "", LOOP)
    add(VertexKind.FUNCTION, 1, "at", LOOP, site=13)
    add(VertexKind.COMP, 2, "", AT)
    add(VertexKind.FUNCTION, 3, "width", SOLVE, site=11)
    add(VertexKind.COMP, 4, "", OUTSIDE)
    add(VertexKind.FUNCTION, 5, "rest", SOLVE, site=15)
    add(VertexKind.CALL, 6, "usleep", SLEEPS)
    add(VertexKind.CALL, 13, "sort", LOOP)
    return psg


def lost(vertex: int, line: int, seconds: float, ranks: list[int]) -> Candidate:
    anywhere: Any = None  # what is joined is known by the places alone
    return Candidate(anywhere, CodeLocation(TargetKind.OWN, vertex, line), np.array([vertex]), seconds, ranks)


@pytest.mark.parametrize(
    ("file", "parts", "joined"),
    [
        ("a.cc", [(ROW, 13, 5.0, [3]), (AT_LINE, 2, 2.0, [3])], [7.0]),
        ("a.cc", [(ROW, 13, 5.0, [3]), (OUTSIDE_LINE, 4, 2.0, [3])], [7.0]),
        ("a.cc", [(ROW, 13, 5.0, [3]), (SLEEP, 6, 2.0, [3])], [5.0, 2.0]),
        ("a.cc", [(ROW, 13, 5.0, [3]), (AT_LINE, 2, 2.0, [1])], [5.0, 2.0]),
        ("a.cc", [(AT_LINE, 2, 5.0, [3]), (ROW, 13, 2.0, [3])], [7.0]),
        ("a.py", [(ROW, 13, 5.0, [3]), (OUTSIDE_LINE, 4, 2.0, [3])], [5.0, 2.0]),
        ("a.py", [(AT_LINE, 2, 5.0, [3]), (ROW, 13, 2.0, [3])], [7.0]),
        ("a.py", [(AT_LINE, 2, 5.0, [3]), (BESIDE, 13, 2.0, [3])], [5.0, 2.0]),
        ("a.cc", [(AT_LINE, 2, 5.0, [3]), (BESIDE, 13, 2.0, [3])], [7.0]),
    ],
    ids=[
        "accessor",
        "before the loop",
        "a call that sleeps",
        "another rank",
        "its call",
        "Python",
        "call in Python",
        "a library beside it",
        "a library beside it in a loop",
    ],
)
def test_one_cause_is_one_candidate(
    file: str, parts: list[tuple[int, int, float, list[int]]], joined: list[float]
) -> None:
    result = _join_called([lost(*part) for part in parts], program(file))
    assert [candidate.lost_s for candidate in result] == joined
    assert sum(len(candidate.entries) for candidate in result) == len(parts)


def test_ranks_agree_on_the_vertex_of_a_line() -> None:
    inner, outer, other = (
        CodeLocation(TargetKind.OWN, vertex, line) for vertex, line in ((AT, 13), (ROW, 13), (LOOP, 12))
    )
    within = {(0, SOLVE): {inner: 1.0, other: 1.0}, (1, SOLVE): {outer: 1.0}}
    assert _of_lines(within) == {(SOLVE, 13): outer, (SOLVE, 12): other}


def called(cost: Callable[[int, int], dict[str, float]], contexts: int = 1) -> list[tuple[str, list[int]]]:
    """Line and ranks of the findings of a program, whose activities but the first lie in a function of their own; with
    two contexts, one in each of two calls that one line makes."""
    timeline, names = simulate(steps(4, 40, cost, noise=0.03))
    psg = structure(names)
    function, place = len(psg), Place("/job/a.cc", 50, 60, 0, "rebuild")
    for index in range(function, function + contexts):
        psg.vertices.append(
            Vertex(index, VertexKind.FUNCTION, place, len(names), 0, site=Place("/job/a.cc", 9, 9, 4, ""))
        )
    for context, name in enumerate(("clear", "insert")):
        psg[names.index(name)].parent = function + context % contexts
    for above in (len(names), *range(function, function + contexts)):
        psg[above].children = [v.index for v in psg.vertices if v.parent == above]
    waits = find_waits(timeline)
    found = detect(timeline, psg, Waiting(waits, blame(timeline, waits), prepare(timeline), find_task_farms(timeline)))
    return [(names[f.line - 1], f.ranks) for f in found]


def test_what_only_late_ranks_call_at_all_is_one_cause() -> None:
    def in_turn(step: int, rank: int) -> dict[str, float]:
        return {"forward": 30.0, **({"clear": 15.0, "insert": 25.0} if step % 4 == rank else {})}

    def slower(step: int, rank: int) -> dict[str, float]:
        return {"forward": 30.0, "clear": 25.0 if rank == 2 else 10.0, "insert": 40.0 if rank == 2 else 15.0}

    assert called(in_turn) == [("insert", [0, 1, 2, 3])]
    assert called(in_turn, contexts=2) == [("insert", [0, 1, 2, 3])]
    assert called(slower) == [("insert", [2]), ("clear", [2])]


def of_a_library(cost: Callable[[int, int], dict[str, float]]) -> list[tuple[str, list[int]]]:
    """Line and ranks of the findings of a program that calls a library's function at two lines."""
    timeline, names = simulate(steps(4, 40, cost, noise=0.03))
    psg = structure(names)
    for name in ("before", "after"):
        vertex = psg[names.index(name)]
        vertex.kind, vertex.place = VertexKind.CALL, replace(vertex.place, name="dgemm")
    waits = find_waits(timeline)
    found = detect(timeline, psg, Waiting(waits, blame(timeline, waits), prepare(timeline), find_task_farms(timeline)))
    return [(names[f.line - 1], f.ranks) for f in found]


def test_what_is_called_at_another_line_for_it_is_not_done_more() -> None:
    def otherwise(step: int, rank: int) -> dict[str, float]:
        early = rank == 3
        return {"before": 30.0 if early else 10.0, "after": 10.0 if early else 30.0, "norm": 8.0 if early else 0.0}

    def more(step: int, rank: int) -> dict[str, float]:
        return {"before": 30.0 if rank == 3 else 10.0, "after": 10.0, "norm": 8.0}

    assert of_a_library(otherwise) == [("norm", [3])]
    assert of_a_library(more) == [("before", [3])]


def dispatched(handlers: int, others: float = 10.0) -> list[tuple[int, str, list[int]]]:
    """Line, function and ranks of the findings where one line of ``apply`` calls another handler in every step, which
    takes rank 2 40 ms and the others as many as given."""

    def cost(step: int, rank: int) -> dict[str, float]:
        handler = {f"handler {step % handlers}": 40.0 if rank == 2 else others}
        return {"forward": 30.0, **(handler if rank == 2 or others else {})}

    timeline, names = simulate(steps(4, 60, cost, noise=0.03))
    psg = structure(names)
    apply = len(psg)
    site = Place("/job/train.py", 9, 9, 0, "apply")
    psg.vertices.append(
        Vertex(apply, VertexKind.FUNCTION, Place("/job/apply.py", 5, 8, 0, "apply"), len(names), 0, site=site)
    )
    for name in names:
        if name.startswith("handler"):
            place, site = Place("/job/handlers.py", 10, 19, 0, name), Place("/job/apply.py", 7, 7, 0, name)
            psg.vertices.append(Vertex(len(psg), VertexKind.FUNCTION, place, apply, 0, site=site))
            psg[names.index(name)].parent = len(psg) - 1
    for vertex in psg.vertices:
        vertex.children = [other.index for other in psg.vertices if other.parent == vertex.index]
    waits = find_waits(timeline)
    found = detect(timeline, psg, Waiting(waits, blame(timeline, waits), prepare(timeline), find_task_farms(timeline)))
    return [(f.line, f.function, f.ranks) for f in found]


def test_many_functions_that_one_line_calls_are_one_cause_where_none_is_large() -> None:
    assert dispatched(8) == [(7, "apply", [2])]


def test_a_few_functions_that_one_line_calls_are_causes_of_their_own() -> None:
    assert sorted(function for _, function, _ in dispatched(3)) == [f"handler {number}" for number in range(3)]


def test_all_that_only_the_late_rank_does_is_one_cause_even_if_all_of_it_is_large() -> None:
    assert dispatched(3, others=0.0) == [(5, "apply", [2])]
    assert [function for _, function, _ in dispatched(1, others=0.0)] == ["handler 0"]
