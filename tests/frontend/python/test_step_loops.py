"""Which loops of a program make its steps: those with ``# steps`` in their line, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.structure.psg import VertexKind
from tests.frontend.outline import program, write

PROGRAMS = {
    "ranks": """\
        import torch.distributed as dist
        for step in range(9):  # steps
            for row in range(3):
                row += 1
            dist.barrier()
        """,
    "backward-in-a-function": """\
        import torch
        def train(batch):
            for row in batch:
                row += 1
            torch.nn.Linear(2, 2)(batch).sum().backward()
        for epoch in range(2):  # steps
            for batch in load():  # steps
                train(batch)
        """,
    "optimizer": """\
        def fit(optimizer):
            for batch in range(9):  # steps
                sum(n for n in batch)
                optimizer.step()
        fit(make())
        """,
    "environment": """\
        import scalana
        for turn in range(9):  # steps
            while busy:
                env.step()
            scalana.step()
        """,
    "generator": """\
        import scalana
        def batches():
            for number in range(9):  # steps
                for row in range(3):
                    number += row
                yield number
        def doubled(source):
            for one in batches():  # steps
                yield 2 * one
        for batch in doubled(9):  # steps
            scalana.step()
        """,
    "generator-asked": """\
        import scalana
        def batches():
            while True:  # steps
                value = yield
        source = batches()
        while True:  # steps
            batch = next(batches())
            scalana.step()
        """,
    "generator-of-one-step": """\
        import scalana
        def rows(batch):
            for row in batch:
                yield row
        for batch in range(9):  # steps
            total = sum(rows(batch))
            scalana.step()
        """,
    "set-up-alone": """\
        import torch.distributed as dist
        dist.init_process_group("gloo")
        for part in range(9):  # steps
            for row in range(3):
                row += 1
        """,
    "no-step-marked": """\
        def work(part):
            for row in range(part):
                row += 1
        for part in range(9):  # steps
            work(part)
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_that_make_steps(tmp_path: Path, name: str) -> None:
    psg = program(tmp_path, PROGRAMS[name])
    write(tmp_path, {"expected": PROGRAMS[name]})
    expected = {n for n, line in enumerate((tmp_path / "expected").read_text().splitlines(), 1) if "# steps" in line}
    loops = [vertex for vertex in psg.vertices if vertex.kind is VertexKind.LOOP]
    assert {loop.place.line for loop in loops if psg.makes_steps(loop.index)} == expected
    assert len(expected) < len({loop.place.line for loop in loops}) or name == "generator-asked"
    copy = psg.copy()
    assert [copy.makes_steps(one.index) for one in loops] == [psg.makes_steps(one.index) for one in loops]
