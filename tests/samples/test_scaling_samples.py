"""Planted scaling faults in Python and C++, run at several sizes: the root line on top, its kind, its growth, seconds.

``SCALING_RUNS`` names a folder in which the run folders (``NAME-RANKS`` in Python, ``NAME.cpp-RANKS`` in C++) are
kept, and used again. The machine may be busy with other things: what two recordings tell wrong is wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.attempts import attempts
from tests.long import in_short
from tests.needs import torch_or_skip
from tests.runtime.mpi.conftest import one_mpi
from tests.scalana.command import command
from tests.tools.fork_server import launcher

from .alone import alone
from .conftest import ROOT, scalana
from .planted import SAMPLES, header, marked_line
from .test_mpi_samples import as_python

FOLDER = SAMPLES / "scaling"
FAR = 64
ATTEMPTS = 2
LIKE = {"falls": ("falls to a constant",), "constant": ("falls to a constant",)}
"""Growth that three sizes with some noise don't tell from another one; the range of a prediction says so."""


@dataclass(frozen=True)
class ScalingSample:
    """One program and what is planted in it."""

    path: Path
    sizes: tuple[int, ...]
    scaling: str
    function: str
    kind: str
    line: int
    growth: str | None
    """None where it depends on the machine."""
    lost_s: float | None
    """Rank-seconds above ideal at the largest size, None likewise."""
    seconds_at_64: float | None
    """Seconds of an average rank there would be on 64 ranks, None likewise."""

    @property
    def name(self) -> str:
        return self.path.stem if self.path.suffix == ".py" else self.path.name


def read(path: Path) -> ScalingSample:
    """Reads a program's header and finds its marker."""
    text = as_python(path.read_text(encoding="utf-8"))
    values = header(text, path)
    (fault,) = values["faults"]
    line = marked_line(text, fault["marker"])
    assert line is not None, f"{path}: no line ends in '<- {fault['marker']}'"
    return ScalingSample(
        path, tuple(values["sizes"]), values["scaling"], fault["function"], fault["kind"], line, fault.get("growth"),
        fault.get("lost_s"), fault.get("seconds_at_64"),
    )  # fmt: skip


SCALING_SAMPLES = [read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in (".py", ".cpp")]


@dataclass
class Comparison:
    """Recordings of one sample, made when they are asked for."""

    sample: ScalingSample
    runs: Path
    found: dict[tuple[int, tuple[int, ...]], dict[str, Any]] = field(default_factory=dict)

    def run(self, ranks: int, attempt: int) -> Path:
        """The run folder of one size."""
        folder = self.runs / (f"{self.sample.name}-{ranks}" + (f"-{attempt}" if attempt else ""))
        if (folder / "run.json").is_file():
            return folder
        if self.sample.path.suffix == ".py":
            torch_or_skip()
            job = [*launcher(ranks), str(self.sample.path)]
            done = scalana("run", "--no-report", "-o", str(folder), "--", *job)
            assert done.returncode == 0, done.stderr
            return folder
        mpi = one_mpi(self.runs)
        program = self.runs / self.sample.path.stem
        if not program.exists():
            mpi.compile(self.sample.path, name=program.name)
        return alone(lambda: mpi.record(ranks, program, name=folder.name))

    def scaling(self, attempt: int = 0, sizes: tuple[int, ...] = (), at: int = FAR) -> dict[str, Any]:
        """The comparison of all sizes, as JSON."""
        sizes = sizes or self.sample.sizes
        if (attempt, sizes) not in self.found:
            folders = [str(self.run(ranks, attempt)) for ranks in sizes]
            done = command("scaling", *folders, "--at", str(at), "--format", "json")
            assert done.returncode == 0, done.stderr
            self.found[attempt, sizes] = json.loads(done.stdout)
        return self.found[attempt, sizes]

    def settle(self, check: Callable[[dict[str, Any]], None]) -> None:
        """Holds if the check does for one of the recordings: what else runs on the machine may spoil one of them."""
        for attempt in attempts(ATTEMPTS):
            try:
                check(self.scaling(attempt))
                return
            except AssertionError:
                if attempt + 1 == ATTEMPTS:
                    raise


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    kept = os.environ.get("SCALING_RUNS")
    runs = Path(kept).resolve() if kept else tmp_path_factory.mktemp("scaling")
    runs.mkdir(parents=True, exist_ok=True)
    return {sample.name: Comparison(sample, runs) for sample in SCALING_SAMPLES}


SHORT = ("growing_collective.cpp", "rebuilt_table", "shrinking_halo.cpp")
"""Others have the mark ``long``, as `make proof NAME=accuracy-scaling-*` measures all of them."""


@pytest.fixture(params=in_short([sample.name for sample in SCALING_SAMPLES], SHORT))
def comparison(request: pytest.FixtureRequest, comparisons: dict[str, Comparison]) -> Comparison:
    return comparisons[request.param]


pytestmark = pytest.mark.slow


def test_the_planted_line_is_on_top(comparison: Comparison) -> None:
    sample = comparison.sample

    def check(found: dict[str, Any]) -> None:
        top = found["findings"][0]
        assert (Path(top["root"]["file"]).name, top["root"]["line"]) == (sample.path.name, sample.line)
        assert top["root"]["function"] == sample.function
        assert top["kind"] == sample.kind

    comparison.settle(check)


def test_the_scaling_is_recognised(comparison: Comparison) -> None:
    def check(found: dict[str, Any]) -> None:
        assert found["scaling"]["kind"] == comparison.sample.scaling
        assert not found["scaling"]["stated"]

    comparison.settle(check)


def test_seconds_and_growth_are_those_planted(comparison: Comparison) -> None:
    sample = comparison.sample

    def check(found: dict[str, Any]) -> None:
        top = found["findings"][0]
        if sample.lost_s is None:
            # What depends on the machine: it grows, and costs most of all.
            assert top["evidence"]["seconds"] == sorted(top["evidence"]["seconds"])
            assert top["lost_share"] > 0.3
            return
        assert top["lost_s"] == pytest.approx(sample.lost_s, rel=0.2)
        assert top["evidence"]["growth"] in (sample.growth, *LIKE.get(sample.growth or "", ()))
        predicted = top["evidence"]["predicted"]
        assert sample.seconds_at_64 is not None
        assert predicted["low"] <= 1.2 * sample.seconds_at_64
        assert predicted["high"] >= 0.8 * sample.seconds_at_64
        if top["evidence"]["growth"] == sample.growth:
            assert 0.5 < predicted["seconds"] / sample.seconds_at_64 < 2.0

    comparison.settle(check)


def test_the_json_follows_its_schema(comparison: Comparison) -> None:
    schema = json.loads((ROOT / "docs" / "scaling.schema.json").read_text())
    jsonschema.validate(comparison.scaling(), schema)


@pytest.mark.long
def test_a_run_that_was_not_fitted_is_predicted(comparisons: dict[str, Comparison]) -> None:
    """Fitted to 2, 3, 4 and 6 ranks; the run of 8 is predicted within a fifth."""
    comparison, errors = comparisons["rebuilt_table.cpp"], []
    for attempt in attempts(ATTEMPTS):
        expected = comparison.scaling(attempt, (2, 3, 4, 6), at=8)["prediction"]
        real = comparison.scaling(attempt)["sizes"][-1]
        assert expected["ranks"] == real["ranks"] == 8
        errors.append(expected["seconds"] / real["seconds"] - 1.0)
        if abs(errors[-1]) < 0.2:
            return
    pytest.fail(f"errors of the prediction: {errors}")
