"""The course of a run that goes on, kept from look to look, is that of its whole record."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.progress.course import Course
from scalana.live.look import Looker
from scalana.runtime.record import layout
from tests.graphs.progress.restarted import Started
from tests.graphs.runs import build
from tests.scalana.live.growing import Growing


def test_looks_add_up_to_the_whole_run(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    first = Started(whole, 1, 1000).steps(30).file("save", "/ckpt", 5, 300).steps(20)
    ended = first.end(status=1, killed=1)
    second = Started(whole, 2, ended + 1000).file("load", "/ckpt", 5, 100)
    second.steps(40).in_functions(("main", "evaluate", "mask"), 700).steps(10).end()
    expected = build(whole, command=["x"]).run.course
    run = Growing(whole, tmp_path / "run")
    found: list[Course] = []
    with Looker(str(run.folder), 5) as looker:
        for blocks in (1, 2, 3, 4, 6, 8, 100):
            run.grow(blocks)
            view = looker.look(analyse=False)
            found += [view.course] if view.course is not None else []
    assert expected is not None
    assert found[-1].parts_s() == pytest.approx(expected.parts_s(), abs=0.02)
    assert found[-1].resumed == expected.resumed
    shares = [one.seconds for one in found]
    assert shares == sorted(shares)
    assert not layout.hangs(run.folder)
