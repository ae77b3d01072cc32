"""A library's call that holds a whole loop is taken apart; one that does not communicate is not."""

from __future__ import annotations

import pytest

from scalana.graphs.structure.psg import VertexKind
from tests.graphs.runs import FILE, LIBRARY, MAIN_LINE, build, make_ranks

TRAINER = f"{LIBRARY}/trainer.py"


def inside(*functions, line=MAIN_LINE):
    return [(FILE, "<module>", line), *((TRAINER, name, 1) for name in functions)]


@pytest.fixture
def ppg(tmp_path):
    ranks = make_ranks(tmp_path, 2)
    for rank in ranks:
        for _ in range(10):
            rank.work(inside("train", "step", "forward", "linear"), 20)
            rank.work(inside("train", "step"), 10)
            rank.call("allreduce", rank.now + 1, inside("train", "step"))
            rank.work(inside("train", "save", "write"), 10)
            rank.work(inside("train", "save"), 10)
            rank.work(inside("tidy", "collect", line=MAIN_LINE + 1), 10)
        rank.end()
    return build(tmp_path)


def seconds(ppg):
    """Own seconds of rank 0 by (name, place in the library), and those vertices."""
    found = {}
    for vertex, row in zip(ppg.psg.vertices, ppg.metrics["time_s"].tolist(), strict=True):
        if row[0] and vertex.kind is VertexKind.CALL:
            found[vertex.place.name, vertex.site.name if vertex.site else ""] = (row[0], vertex)
    return found


def test_what_leaves_the_paths_that_communicate_is_a_part(ppg):
    found = seconds(ppg)
    assert {name: round(s, 2) for name, (s, _) in found.items()} == {
        ("forward", "step"): pytest.approx(0.2),
        ("save", "train"): pytest.approx(0.2),
        ("train", ""): pytest.approx(0.1),
        ("tidy", ""): pytest.approx(0.1),
    }


def test_a_part_stands_at_the_users_line_and_knows_that_of_the_library(ppg):
    _, part = seconds(ppg)["save", "train"]
    assert (part.place.file, part.place.line) == (FILE, MAIN_LINE)
    assert (part.site.file, part.site.name) == (TRAINER, "train")
    assert ppg.psg[part.parent].place.name == "train"
