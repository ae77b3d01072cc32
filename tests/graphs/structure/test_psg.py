"""The structure graph by itself, and contracted."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.structure.contraction import contract
from scalana.graphs.structure.psg import PSG, Place, VertexKind, Visitor
from scalana.runtime.operations import BY_NAME
from tests.needs import Later

nx = Later("networkx")

ALLREDUCE = BY_NAME["allreduce"].code
KINDS = {kind.value: kind for kind in VertexKind}


def build(*rows: tuple[int, str, int, int]) -> PSG:
    """A graph from rows of (parent, kind, first line, last line), all in one file."""
    psg = PSG("test")
    for parent, kind, line, end in rows:
        name = f"{kind}{len(psg)}"
        psg.add(KINDS[kind], Place("/a.py", line, end, 0, name), parent, ALLREDUCE if kind == "comm" else 0)
    return psg


def example() -> PSG:
    return build(
        (0, "function", 1, 20),  # 1
        (1, "comp", 2, 3),  # 2
        (1, "loop", 4, 12),  # 3: holds communication
        (3, "comp", 5, 5),  # 4
        (3, "loop", 6, 8),  # 5: second level, holds none
        (5, "comp", 7, 8),  # 6
        (3, "branch", 9, 11),  # 7: holds communication
        (7, "comm", 10, 10),  # 8
        (1, "branch", 13, 14),  # 9: holds none
        (9, "comp", 14, 14),  # 10
        (1, "comp", 15, 15),  # 11
        (1, "loop", 16, 17),  # 12: first level
        (1, "call", 18, 18),  # 13
    )


def test_vertices_know_their_place_in_the_tree() -> None:
    psg = example()
    assert [vertex.index for vertex in psg.ancestors(8)] == [7, 3, 1, 0]
    assert psg.function_of(8) == psg.function_of(1) == "function1"
    assert psg.function_of(0) == ""
    assert psg.enclosing(8, VertexKind.LOOP) == 3
    assert psg.enclosing(2, VertexKind.LOOP) == -1
    assert [vertex.index for vertex in psg.walk()] == list(range(14))
    assert [vertex.index for vertex in psg.walk(3)] == [3, 4, 5, 6, 7, 8]
    assert [psg[child].position for child in psg[1].children] == list(range(6))


def test_networkx_sees_places_and_all_kinds_of_edges() -> None:
    psg = example()
    psg.data.append((4, 8))
    psg.data.append((2, 3))  # beside the edge of order between the same two
    back = psg.add(VertexKind.CALL, Place("/a.py", 19, 19, 4, "f"), 1, recursion=1)
    graph = psg.to_networkx()
    assert graph.number_of_nodes() == len(psg)
    assert graph.nodes[8] == {
        "kind": "comm",
        "file": "/a.py",
        "line": 10,
        "end_line": 10,
        "column": 0,
        "name": "comm8",
        "operation": "allreduce",
    }
    assert graph.nodes[2]["operation"] == ""

    def edges(kind: str) -> set[tuple[int, int]]:
        return {(a, b) for a, b, t in graph.edges(data="type") if t == kind}

    assert edges("data") == {(4, 8), (2, 3)}
    assert edges("recursion") == {(back, 1)}
    assert {(2, 3), (3, 9), (4, 5), (5, 7)} <= edges("order")
    tree = nx.DiGraph(edges("control"))
    assert nx.is_arborescence(tree) and len(tree) == len(psg)


def test_a_visitor_sees_the_kinds_that_it_asks_for() -> None:
    class Loops(Visitor):
        def __init__(self, psg: PSG) -> None:
            super().__init__(psg)
            self.found: list[int] = []

        def visit_loop(self, vertex: object) -> None:
            self.found.append(vertex.index)  # type: ignore[attr-defined]

    outermost = Loops(example())
    outermost.visit()
    assert outermost.found == [3, 12]  # it does not go deeper unless it says so


@pytest.mark.parametrize(
    ("depth", "kept"),
    [
        (1, [0, 1, 2, 3, 4, 7, 8, 9, 12, 13]),
        (2, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13]),
        (0, [0, 1, 2, 3, 4, 7, 8, 9, 13]),
    ],
)
def test_contraction_keeps_communication_and_what_holds_it(depth: int, kept: list[int]) -> None:
    psg = example()
    small = contract(psg, loop_depth=depth)
    firsts = [int(np.flatnonzero(small.vertex == index)[0]) for index in range(len(small.psg))]
    assert firsts == kept
    assert [v.operation for v in small.psg.vertices if v.kind is VertexKind.COMM] == [ALLREDUCE]


def test_contraction_merges_neighbours_and_keeps_their_span() -> None:
    psg = example()
    small = contract(psg)
    assert len({int(small.vertex[index]) for index in (9, 10, 11)}) == 1
    merged = small.psg[int(small.vertex[9])]
    assert merged.kind is VertexKind.COMP
    assert (merged.place.line, merged.place.end_line) == (13, 15)
    inner = small.psg[int(small.vertex[5])]
    assert inner.kind is VertexKind.COMP and (inner.place.line, inner.place.end_line) == (5, 8)
    assert len(psg) == 14 and psg[5].kind is VertexKind.LOOP  # the original is as it was


def test_contraction_carries_edges_over() -> None:
    psg = example()
    psg.data += [(2, 8), (10, 11), (6, 8)]
    back = psg.add(VertexKind.CALL, Place("/a.py", 19, 19, 4, "f"), 3, recursion=1)
    small = contract(psg)
    to = [int(v) for v in small.vertex]
    assert small.psg.data == sorted([(to[2], to[8]), (to[6], to[8])])  # not the one inside a merged stretch
    assert small.psg[to[back]].recursion == to[1]


def test_a_call_that_samples_added_below_a_stretch_survives_contraction() -> None:
    psg = example()
    call = psg.add(VertexKind.CALL, Place("/a.py", 2, 2, -1, "lib"), 2)
    function = psg.add(VertexKind.FUNCTION, Place("/b.py", 1, 5, 0, "hook"), call)
    comm = psg.add(VertexKind.COMM, Place("/b.py", 3, 3, 0, "x"), function, ALLREDUCE)
    small = contract(psg)
    path = [v.place.name for v in small.psg.ancestors(int(small.vertex[comm]))]
    assert path == ["hook", "lib", "function1", "test"]


def test_contraction_of_a_contraction_changes_nothing() -> None:
    once = contract(example()).psg
    twice = contract(once).psg
    assert [(v.kind, v.place, v.parent) for v in once.vertices] == [(v.kind, v.place, v.parent) for v in twice.vertices]


def test_what_communicates() -> None:
    psg = example()
    for _ in range(2):  # and again, when a vertex was added
        for vertex in psg.vertices:
            inside = any(below.kind is VertexKind.COMM for below in psg.walk(vertex.index))
            assert psg.communicates(vertex.index) == inside
        silent = next(v.index for v in psg.vertices if v.index and not psg.communicates(v.index))
        psg.add(VertexKind.COMM, Place("/a.py", 9, 9, 0, "late"), silent, ALLREDUCE)
