"""Looks at a run that goes on keep what does not change between them, and find what an analysis from scratch finds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

import scalana
from scalana.frontend import build
from scalana.frontend.cpp.binary.symbols import NativeFrame
from scalana.graphs.structure.psg import PSG
from scalana.live.last_steps import KeptPlacer, KeptStructure, KnownFrames
from scalana.live.look import Looker
from tests.scalana.live.growing import GrowingRun
from tests.scalana.recorded import PREPARE_LINE


def test_sources_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    real = build.structure_of_run
    monkeypatch.setattr(build, "structure_of_run", lambda *of_run: read.append(of_run) or real(*of_run))
    run = GrowingRun(tmp_path)
    with Looker(str(run.folder), 10) as looker:
        for blocks in (20, 30, 40):
            run.grow(blocks)
            analysed = looker.look().analysed
            assert analysed is not None and len(read) == 1
            assert (analysed.causes[0].line, analysed.causes[0].ranks) == (PREPARE_LINE, (1,))
    run.end()
    whole = scalana.analyze(run.folder, steps=analysed.steps)
    assert [(one.line, tuple(one.ranks)) for one in whole.findings] == [
        (one.line, one.ranks) for one in analysed.causes
    ]
    assert dict(analysed.parts)["waiting"] == pytest.approx(whole.time.wait_s / whole.time.total_s, abs=0.02)


def test_a_structure_is_read_again_where_the_run_is_seen_elsewhere() -> None:
    asked: list[tuple[list[str], set[str]]] = []

    def read(programs: Sequence[str], lib_dirs: Sequence[str], seen: Collection[str]) -> tuple[PSG, Any]:
        asked.append((list(programs), set(seen)))
        return PSG(), lambda file: None

    kept = KeptStructure(read)
    first = kept(["train.py"], [], {"train.py", "data.py"})
    assert kept(["train.py"], [], {"data.py"}) == first and len(asked) == 1
    assert kept(["train.py"], [], {"model.py"}) != first
    assert kept(["other.py"], [], {"other.py"})[0] is not first[0]
    assert [programs for programs, _ in asked] == [["train.py"], ["train.py"], ["other.py"]]
    assert asked[1][1] == {"train.py", "data.py", "model.py"}


def test_paths_are_placed_by_what_was_kept_of_the_same_structure() -> None:
    kept, psg, parse = KeptPlacer(), PSG(), {}.get
    first = kept(psg, parse, lib_dirs=["lib"], own=["b", "a"], models={"m"})
    assert kept(psg, parse, lib_dirs=["lib"], own=["a", "b"], models={"m"}) is first
    assert kept(psg, parse, lib_dirs=["lib"], own=["a"], models={"m"}) is not first
    assert kept(PSG(), parse, lib_dirs=["lib"], own=["a"], models={"m"}).psg is not psg


def test_native_code_is_looked_up_once() -> None:
    asked: list[list[int]] = []

    def look_up(path: str, build_id: str, offsets: Collection[int]) -> dict[int, list[NativeFrame]]:
        asked.append(sorted(offsets))
        return {offset: [NativeFrame("a.c", f"f{offset}", 1, offset)] for offset in offsets if offset != 3}

    known = KnownFrames(look_up)
    assert set(known("a.so", "1", [1, 3])) == {1}
    found = known("a.so", "1", [1, 2, 3])
    assert set(found) == {1, 2} and found[1][0].line == 1
    assert asked == [[1, 3], [2]]
    assert set(known("b.so", "1", [1])) == {1} and asked[-1] == [1]
