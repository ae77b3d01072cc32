"""The samples in C++ and mpi4py under the MPIs at hand: the planted place, on its rank, comes first, with its seconds.

How long something planted took is what the program says: on cores that ranks share nothing takes as long as it should.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import scalana
from tests.attempts import attempts
from tests.runtime.mpi.conftest import MPIS, Mpi, mpi, named  # noqa: F401  (a fixture)

from .alone import alone
from .planted import SAMPLES, header, marked_line

FOLDER = SAMPLES / "mpi"
NAMES = sorted(path.name for path in FOLDER.glob("*.*") if path.suffix in (".cpp", ".py"))
ATTEMPTS = 3
WITHIN, CROWDED_WITHIN = 0.1, 0.15
"""How far seconds may be off; the latter with more than two ranks to a core, where turns on the cores come on top."""
WITH_STEPS = ("halo_corner.cpp", "balanced.cpp", "rows_columns.cpp")
"""One has messages alone, one a collective of all, one collectives of rows and columns."""
OFF_CPU = 0.2
"""Of a core; what only sleeps uses less."""
pytestmark = pytest.mark.slow

_built: dict[tuple[str, str], Path] = {}


def as_python(text: str) -> str:
    """A header in comments of C++ as one in comments of Python."""
    return re.sub(r"^//(?= |$)|//(?= <-)", "#", text, flags=re.MULTILINE)


HEADERS = {name: header(as_python((FOLDER / name).read_text(encoding="utf-8")), FOLDER / name) for name in NAMES}
FAULTY = [name for name in NAMES if not HEADERS[name].get("balanced")]
BALANCED = [name for name in NAMES if HEADERS[name].get("balanced")]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


def command(mpi: Mpi, name: str, builds: Path) -> list[str]:  # noqa: F811
    path = FOLDER / name
    if path.suffix == ".py":
        python = Path(mpi.folder) / "python"
        if (
            not python.exists()
            or subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode
        ):
            pytest.skip(f"no Python with mpi4py and numpy in {mpi.folder}")
        return [str(python), str(path)]
    key = (mpi.folder, name)
    if key not in _built:
        _built[key] = mpi.compile(path, name=str(builds / f"{len(_built)}-{path.stem}"))
    return [str(_built[key])]


def said(output: str, what: str) -> float:
    found = re.search(rf"{what} seconds: ([0-9.]+)", output)
    assert found, output
    return float(found[1])


@dataclass
class Outcome:
    """One attempt, and what is wrong about it."""

    report: scalana.Report
    within: float
    wrong: list[str] = field(default_factory=list)

    def near(self, what: str, told: float, truth: float, within: float = 0.0) -> None:
        if abs(told - truth) > max(self.within, within) * truth:
            self.wrong.append(f"{what}: told {told:.3f} s, truth {truth:.3f} s")

    def equal(self, what: str, told: object, truth: object) -> None:
        if told != truth:
            self.wrong.append(f"{what}: told {told}, truth {truth}")

    def holds(self, what: str, holds: bool) -> None:
        if not holds:
            self.wrong.append(what)


def attempt(mpi: Mpi, name: str, words: list[str], ranks: int, fixes: bool, number: int) -> Outcome:  # noqa: F811
    folder = alone(lambda: mpi.record(ranks, *words, name=f"run{number}"))
    crowded = ranks > 2 * (os.cpu_count() or 1)
    outcome = Outcome(scalana.analyze(folder), CROWDED_WITHIN if crowded else WITHIN)
    recorded = mpi.output
    (fault,) = HEADERS[name]["faults"]
    compare(outcome, name, fault, ranks, said(recorded, "planted"))
    compare_steps(outcome, name)
    if fixes and outcome.report.findings:
        fixed = alone(lambda: mpi.run(ranks, *words, "--fix"))
        assert fixed.returncode == 0, fixed.stderr
        saved = said(recorded, "loop") - said(fixed.stdout, "loop")
        # Who computes too much also takes a core from ranks that spin: the fix brings more than the replay can know.
        shares_cores = ranks > (os.cpu_count() or 1) and fault["kind"] in ("busy", "data")
        told = outcome.report.findings[0].saving_s
        outcome.near("what the fix saves", told, saved, CROWDED_WITHIN if shares_cores else 0.0)
    return outcome


def compare(outcome: Outcome, name: str, fault: dict[str, Any], ranks: int, planted_s: float) -> None:
    text = as_python((FOLDER / name).read_text(encoding="utf-8"))
    first = marked_line(text, fault["marker"])
    assert first is not None
    last = marked_line(text, f"end of {fault['marker']}") or first
    outcome.holds("there is a finding", bool(outcome.report.findings))
    outcome.holds("there is no pipeline of training", "pipeline" not in outcome.report.analysis.sections)
    if not outcome.report.findings:
        return
    found = outcome.report.findings[0]
    outcome.equal("file", Path(found.file).name, name)
    outcome.holds(f"line {found.line} is from {first} to {last}", first <= found.line <= last)
    outcome.equal("ranks", list(found.ranks), fault["ranks"])
    outcome.equal("function", found.function, fault["function"].partition("<")[0])
    # All begin and end together: all others wait as long as one of them is late.
    outcome.near("lost", found.lost_s, planted_s * (ranks - 1))
    outcome.near("saving", found.saving_s, planted_s)
    if fault["kind"] == "sleep":
        outcome.holds("a sleep is not on the CPU", found.evidence.as_dict()["cpu_share"] < OFF_CPU)
        outcome.equal("kind", found.kind, "late-ranks")
        says_so = "off the CPU" in found.advice or "sleeps here" in found.advice
        outcome.holds(f"the advice says so: {found.advice}", says_so)


def compare_steps(outcome: Outcome, name: str) -> None:
    """Nobody marks steps: they are found by their communication, as many as the program makes; a task farm has none."""
    steps = outcome.report.analysis.steps
    if name in WITH_STEPS:
        source = (FOLDER / name).read_text(encoding="utf-8")
        (made,) = map(int, re.findall(r"for \(int step = 0; step < (\d+); step\+\+\)", source))
        told = (steps.source, len(steps)) if steps is not None else None
        outcome.equal("steps", told, ("communication", made))
    elif name == "master_worker.cpp":
        outcome.equal("steps", steps, None)


FOUR = [(MPIS[(number + 1) % len(MPIS)], name, 4) for number, name in enumerate(FAULTY)]
EIGHT = [(MPIS[number % len(MPIS)], name, 8) for number, name in enumerate(FAULTY)]
"""Under the other MPI: each has half of the samples with either number of ranks."""


@pytest.mark.parametrize(
    ("mpi", "name", "ranks"),
    [*FOUR, *(pytest.param(*case, marks=pytest.mark.long) for case in EIGHT)],
    indirect=["mpi"],
    ids=named,
)
def test_the_planted_cause_comes_first(mpi: Mpi, builds: Path, name: str, ranks: int) -> None:  # noqa: F811
    settle(mpi, name, command(mpi, name, builds), ranks)


@pytest.mark.long
@pytest.mark.parametrize(("mpi", "name", "ranks"), FOUR, indirect=["mpi"], ids=named)
def test_the_fix_saves_what_was_predicted(mpi: Mpi, builds: Path, name: str, ranks: int) -> None:  # noqa: F811
    settle(mpi, name, command(mpi, name, builds), ranks, fixes=True)


def settle(mpi: Mpi, name: str, words: list[str], ranks: int, fixes: bool = False) -> None:  # noqa: F811
    """Fails if nothing that was tried is right."""
    wrong = []
    for number in attempts(ATTEMPTS):
        outcome = attempt(mpi, name, words, ranks, fixes, number)
        if not outcome.wrong:
            return
        wrong.append("\n".join([f"attempt {number}:", *outcome.wrong]))
    pytest.fail("\n".join([*wrong, outcome.report.to_text()]), pytrace=False)


@pytest.mark.parametrize("name", BALANCED)
def test_the_balanced_are_quiet(mpi: Mpi, builds: Path, name: str) -> None:  # noqa: F811
    words = command(mpi, name, builds)
    for number in attempts(ATTEMPTS):
        folder = alone(partial(mpi.record, 8, *words, name=f"run{number}"))
        outcome = Outcome(scalana.analyze(folder), WITHIN)
        outcome.equal("findings", len(outcome.report.findings), 0)
        compare_steps(outcome, name)
        if not outcome.wrong:
            return
    pytest.fail("\n".join([*outcome.wrong, outcome.report.to_text()]), pytrace=False)


def test_there_are_programs() -> None:
    assert len(FAULTY) >= 6
    assert BALANCED
