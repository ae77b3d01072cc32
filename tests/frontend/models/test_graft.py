"""A model below the call that runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.frontend.build import build_psg
from scalana.frontend.models.build import ModelGraph, build
from scalana.frontend.models.graft import graft
from scalana.frontend.models.operators import Captured, Operator, Scope
from scalana.graphs.structure.psg import PSG, Place, VertexKind

SOURCE = """\
import torch.distributed as dist
def step(model, batch):
    out = model(batch)
    dist.all_reduce(out)
for batch in range(3):
    step(print, batch)
"""


def model() -> ModelGraph:
    """Two operators in one module, made without torch."""
    site = Place("net.py", 9, 9, -1, "")
    scopes = (Scope("", "", "net.Net"), Scope("up", "up", "net.Up", site=site))
    first = Operator("aten.linear", scopes, Place("net.py", 3, 3, -1, "aten.linear"), (2, 8), "float32", 256, 416)
    second = Operator("aten.relu", scopes[:1], Place("net.py", 9, 9, -1, "aten.relu"), (2, 8), "float32", 0, 128, [0])
    return build(Captured([first, second], "fx", ["module up is odd"]), Parameters(), "net:Net")


class Parameters:
    """What is asked of a model for its parameters and classes."""

    def named_modules(self) -> list[object]:
        """None."""
        return []

    def named_parameters(self, remove_duplicate: bool = True) -> list[object]:
        """None."""
        return []

    def get_submodule(self, name: str) -> object:
        """None of them."""
        raise AttributeError(name)


def program(tmp_path: Path) -> PSG:
    script = tmp_path / "train.py"
    script.write_text(SOURCE)
    return build_psg([script])


def test_sums_and_scopes() -> None:
    graph = model()
    names = [vertex.place.name for vertex in graph.psg.vertices]
    assert names == ["net:Net", "Net", "up", "aten.linear", "aten.relu"]
    assert graph.flops.tolist() == [256, 256, 256, 256, 0]
    assert graph.bytes.tolist() == [544, 544, 416, 416, 128]
    assert graph.psg.data == [(3, 4)]


def test_a_copy_stands_below_the_call_and_the_arrays_have_an_index(tmp_path: Path) -> None:
    psg = program(tmp_path)
    graph = model()
    before = [(vertex.kind, vertex.place, vertex.parent) for vertex in psg.vertices]
    edges = list(psg.data)
    (step,) = (vertex for vertex in psg.vertices if vertex.place.name == "step")
    (stretch,) = (child for child in step.children if psg[child].kind is VertexKind.COMP)
    to = graft(psg, stretch, graph)
    assert [(vertex.kind, vertex.place, vertex.parent) for vertex in psg.vertices[: len(before)]] == before
    assert to[0] == stretch and sorted(to[1:].tolist()) == list(range(len(before), len(psg)))
    for vertex in graph.psg.vertices[1:]:
        copy = psg[int(to[vertex.index])]
        assert (copy.kind, copy.place, copy.site) == (vertex.kind, vertex.place, vertex.site)
        assert copy.parent == to[vertex.parent]
    assert psg.data == [*edges, (int(to[3]), int(to[4]))]
    assert psg.function_of(int(to[4])) == "step"
    flops = np.zeros(len(psg), dtype=np.int64)
    flops[to] = graph.flops
    assert flops[stretch] == 256
    assert psg.warnings == ["module up is odd"]


def test_twice_is_two_copies(tmp_path: Path) -> None:
    psg = program(tmp_path)
    graph = model()
    size = len(psg)
    first, second = graft(psg, 1, graph), graft(psg, 1, graph)
    assert len(psg) == size + 2 * (len(graph.psg) - 1) and not set(first[1:]) & set(second[1:])
    assert psg.warnings == ["module up is odd"]


def test_no_such_vertex(tmp_path: Path) -> None:
    psg = program(tmp_path)
    with pytest.raises(IndexError, match="no vertex"):
        graft(psg, len(psg), model())
