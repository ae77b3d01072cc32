"""Small functions that all ranks call and one rank calls more: the line that calls them is named, or the function
itself where it is the cause. A recording holds a case after another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scalana
from scalana.detectors.finding import Finding
from tests.needs import torch_or_skip
from tests.runtime.mpi.conftest import one_mpi
from tests.tools.fork_server import launcher

from .alone import alone
from .conftest import scalana as command
from .planted import marked_line
from .test_mpi_samples import as_python

PROGRAMS = Path(__file__).parent / "programs"
RANKS = 4
LEAVES = {"pause", "pause_ms", "now", "Gate.look", "Gate.rest", "hold", "touch", "log", "log_state", "dot"}
"""The helpers that are not to be named, but shown beside the line that is."""
pytestmark = pytest.mark.slow


def planted(path: Path) -> dict[str, tuple[int, int, int]]:
    """Rank, first and last line of every case of a program."""
    text = as_python(path.read_text(encoding="utf-8"))
    cases = re.findall(r"# <- (\w+): (\d+)$", text, re.MULTILINE)
    lines = {name: marked_line(text, f"{name}: {rank}") or 0 for name, rank in cases}
    return {name: (int(rank), lines[name], marked_line(text, f"end of {name}") or lines[name]) for name, rank in cases}


def wrong(path: Path, cases: tuple[str, ...], findings: list[Finding]) -> list[str]:
    """What is not as planted: cases without a finding, and what was found instead."""
    missing = []
    for name, (rank, first, last) in planted(path).items():
        here = [f for f in findings if Path(f.file).name == path.name and first <= f.line <= f.end_line <= last]
        if name in cases and not any(rank in finding.ranks for finding in here):
            missing.append(f"{name}: rank {rank}, line {first}")
    found = [f"{f.ranks} {Path(f.file).name}:{f.line} {f.function}" for f in findings]
    return [*missing, f"found {found}"] if missing else []


def check(path: Path, cases: tuple[str, ...], findings: list[Finding]) -> None:
    assert set(cases) <= set(planted(path))
    assert wrong(path, cases, findings) == []
    assert [f"{f.line} {f.function}" for f in findings if f.function in LEAVES] == []
    shown = {
        str(f.evidence.as_dict()["leaf"]["function"])
        for f in findings
        if isinstance(f.evidence.as_dict().get("leaf"), dict)
    }
    assert shown and shown <= LEAVES


CASES = ("pause", "clock", "gate", "partial", "lambda"), ("log", "dot", "kernel", "alone", "slower")


@pytest.mark.measured
@pytest.mark.parametrize("cases", CASES, ids=" ".join)
def test_in_python(cases: tuple[str, ...], tmp_path: Path) -> None:
    torch_or_skip()
    path, run = PROGRAMS / "helpers.py", tmp_path / "run"
    launched = [*launcher(RANKS), str(path), *cases]
    done = command("run", "--no-report", "-o", str(run), "--", *launched)
    assert done.returncode == 0, done.stderr
    check(path, cases, scalana.analyze(run).findings)


@pytest.mark.measured
@pytest.mark.parametrize("optimised", [pytest.param("-O1", marks=pytest.mark.long), "-O2"])
def test_in_cpp(optimised: str, tmp_path: Path) -> None:
    mpi = one_mpi(tmp_path)
    path = PROGRAMS / "helpers.cpp"
    program = mpi.compile(path, optimised)
    folder = alone(lambda: mpi.record(RANKS, program))
    check(path, tuple(planted(path)), scalana.analyze(folder).findings)
