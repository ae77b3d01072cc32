"""Planted scaling faults, run at several sizes: the root line on top, its kind, its growth and its seconds.

``SCALING_RUNS`` names a folder in which the run folders (``NAME-RANKS``) are kept, and used again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .conftest import scalana
from .planted import SAMPLES, header, marked_line

FOLDER = SAMPLES / "scaling"
FAR = 64


@dataclass(frozen=True)
class ScalingSample:
    """One program and what is planted in it."""

    path: Path
    launch: tuple[str, ...]
    sizes: tuple[int, ...]
    scaling: str
    function: str
    kind: str
    line: int
    growth: str | None
    """None where it depends on the machine."""
    lost_s: float | None
    """Rank-seconds above ideal at the largest size, None likewise."""


def read(path: Path) -> ScalingSample:
    """Reads a program's header and finds its marker."""
    text = path.read_text(encoding="utf-8")
    values = header(text, path)
    (fault,) = values["faults"]
    line = marked_line(text, fault["marker"])
    assert line is not None, f"{path}: no line ends in '# <- {fault['marker']}'"
    return ScalingSample(
        path, tuple(values["launch"].split()), tuple(values["sizes"]), values["scaling"], fault["function"],
        fault["kind"], line, fault.get("growth"), fault.get("lost_s"),
    )  # fmt: skip


SCALING_SAMPLES = [read(path) for path in sorted(FOLDER.glob("*.py"))]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The comparison of all sizes of a sample, as JSON."""
    pytest.importorskip("torch")
    sample: ScalingSample = request.param
    kept = os.environ.get("SCALING_RUNS")
    runs = Path(kept).resolve() if kept else tmp_path_factory.mktemp("scaling")
    folders = []
    for ranks in sample.sizes:
        folder = runs / f"{sample.path.stem}-{ranks}"
        if not (folder / "run.json").is_file():
            done = scalana("run", "--no-report", "-o", str(folder), "--", *sample.launch, str(ranks), str(sample.path))
            assert done.returncode == 0, done.stderr
        folders.append(str(folder))
    done = scalana("scaling", *folders, "--at", str(FAR), "--format", "json")
    assert done.returncode == 0, done.stderr
    return {"sample": sample, **json.loads(done.stdout)}


pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("found", SCALING_SAMPLES, ids=lambda sample: sample.path.stem, indirect=True),
]


def test_the_planted_line_is_on_top(found: dict[str, Any]) -> None:
    sample, top = found["sample"], found["findings"][0]
    assert (Path(top["root"]["file"]).name, top["root"]["line"]) == (sample.path.name, sample.line)
    assert top["root"]["function"] == sample.function
    assert top["kind"] == sample.kind


def test_the_scaling_is_recognised(found: dict[str, Any]) -> None:
    assert found["scaling"]["kind"] == found["sample"].scaling
    assert not found["scaling"]["stated"]


def test_seconds_and_growth_are_those_planted(found: dict[str, Any]) -> None:
    sample, top = found["sample"], found["findings"][0]
    if sample.lost_s is None:
        # What depends on the machine: it grows, and costs most of all.
        assert top["evidence"]["seconds"] == sorted(top["evidence"]["seconds"])
        assert top["lost_share"] > 0.3
        return
    assert top["lost_s"] == pytest.approx(sample.lost_s, rel=0.15)
    assert top["evidence"]["growth"] == sample.growth
    assert top["evidence"]["predicted"]["low"] <= top["evidence"]["predicted"]["high"]
