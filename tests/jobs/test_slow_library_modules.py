"""Four causes inside models of transformers: place, rank, module and, at least, seconds. Whatever has its cores adds to
these, but not to the CPU time that the program measures itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import scalana
from scalana.detectors.finding import Finding
from tests.runtime import jobs

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "jobs" / "programs" / "slow_library_modules.py"
PYTHON = ROOT / "build" / "rl" / "bin" / "python"
FORKED = ROOT / "tests" / "tools" / "forked.py"
RANK, LIMIT_S = 1, 400

pytestmark = [pytest.mark.slow, pytest.mark.measured, pytest.mark.long]

if not PYTHON.exists() or not list(PYTHON.parents[1].glob("lib/python*/site-packages/transformers")):
    pytest.skip("transformers is not installed: make rl", allow_module_level=True)


class Cause(NamedTuple):
    """One that is planted."""

    name: str
    """As the program marks its lines, and calls the function that trains with it."""
    module: str
    """How the module is called that a finding names, or one around it; "" where it need not name any."""
    at_least: float = 0.5
    """Part of what the cause takes that its findings must save in all."""


CAUSES = (
    Cause("sequence", "model", 0.25),  # packed over both ranks, half of it comes back at most
    Cause("experts", "model.layers.1.mlp.experts"),
    Cause("fallback", "model.layers.1.self_attn"),
    Cause("item", ""),
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Finding], dict[str, float]]:
    """What the report of the job tells, and what the program measures."""
    folder = tmp_path_factory.mktemp("job") / "run"
    folder.mkdir()
    done = jobs.run([PYTHON, FORKED, "2", PROGRAM, "fewer"], folder, timeout_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    return scalana.analyze(folder).findings, dict(zip(words[::2], map(float, words[1::2]), strict=True))


@pytest.mark.parametrize("cause", CAUSES, ids=[cause.name for cause in CAUSES])
def test_a_cause_in_a_model_of_a_library(cause: Cause, found: tuple[list[Finding], dict[str, float]]) -> None:
    findings, measured_s = found
    source = PROGRAM.read_text(encoding="utf-8").splitlines()
    here = [one for one in findings if source[one.line - 1].endswith(f"# {cause.name}")]
    told = [(one.line, one.ranks, one.where) for one in findings]
    assert here, told
    assert all(one.file.endswith(PROGRAM.name) and one.ranks == [RANK] for one in here), told
    assert all(str(one.where.module).startswith(cause.module) for one in here), told
    assert sum(one.saving_s for one in here) > cause.at_least * measured_s[cause.name]


def test_nothing_else_is_found(found: tuple[list[Finding], dict[str, float]]) -> None:
    source = PROGRAM.read_text(encoding="utf-8").splitlines()
    marked = tuple(f"# {cause.name}" for cause in CAUSES)
    told = [(one.kind, one.line, one.ranks) for one in found[0]]
    assert all(one.ranks == [RANK] and source[one.line - 1].endswith(marked) for one in found[0]), told
