"""Parts of one cause that a caller and what it calls hold are one candidate."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.candidates import Candidate, Spot, _join_called
from scalana.detectors.targets import TargetKind
from scalana.graphs.psg import PSG, Place, Vertex, VertexKind

ROOT, SOLVE, LOOP, ROW, AT, AT_LINE, OUTSIDE, OUTSIDE_LINE, SLEEPS, SLEEP = range(10)


def program(file: str) -> PSG:
    """A function with a loop that calls ``at`` in each round, and beside it calls ``width`` and ``rest``."""
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
    return psg


def lost(vertex: int, line: int, seconds: float, ranks: list[int]) -> Candidate:
    return Candidate(Spot(TargetKind.OWN, vertex, line), np.array([vertex]), seconds, ranks)


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
    ],
    ids=["accessor", "before the loop", "a call that sleeps", "another rank", "its call", "Python", "call in Python"],
)
def test_one_cause_is_one_candidate(
    file: str, parts: list[tuple[int, int, float, list[int]]], joined: list[float]
) -> None:
    result = _join_called([lost(*part) for part in parts], program(file))
    assert [candidate.lost_s for candidate in result] == joined
    assert sum(len(candidate.entries) for candidate in result) == len(parts)
