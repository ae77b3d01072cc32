"""What all ranks do alike in every step: named, and a step predicted with half of it, which is then really done."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from tests.attempts import attempts
from tests.long import also_rows
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parent / "programs" / "shared_causes.py"
KINDS = {
    "write": "write-bound",
    "program": "program-bound",
    "serialise": "pickle-bound",
    "collect": "collection-bound",
    "communicate": "communication-bound",
    "interpreter": "gil-bound",
    "lock": "lock-bound",
    "python": "python-bound",
}


def recorded(folder: Path, ranks: int, cause: str, part: float) -> tuple[scalana.Report, float]:
    """The report of a job, and what it says itself that a step took."""
    arguments = [str(PROGRAM), cause, str(part)]
    done = jobs.forked(ranks, *arguments, record=folder) if ranks > 1 else jobs.with_torch(*arguments, record=folder)
    assert done.returncode == 0, done.stderr
    return scalana.analyze(folder), float(done.stdout.split()[-1])


@pytest.mark.measured
@pytest.mark.parametrize(
    ("cause", "ranks"),
    [
        ("write", 2),
        *also_rows(("collect", 2), ("communicate", 2)),
        ("program", 1),
    ],
)
def test_what_all_ranks_spend_is_named_and_half_of_it_predicted(tmp_path: Path, cause: str, ranks: int) -> None:
    line = 1 + next(at for at, text in enumerate(PROGRAM.read_text().splitlines()) if text.endswith(f"# <- {cause}"))
    for attempt in attempts(3):
        report, step_s = recorded(tmp_path / f"whole-{attempt}", ranks, cause, 1.0)
        _, half_s = recorded(tmp_path / f"half-{attempt}", ranks, cause, 0.5)
        first = report.findings[0]
        limit = first.evidence.step_limit
        if (
            limit is not None
            and limit.step_s == pytest.approx(step_s, rel=0.1)
            and limit.half_step_s == pytest.approx(half_s, 0.2)
        ):
            break
    assert (first.kind, first.ranks) == (KINDS[cause], list(range(ranks)))
    leaf = first.evidence.leaf  # without communication in a loop, its calls are named
    assert line in (first.line, leaf.line if leaf is not None else -1)
    assert limit is not None and limit.step_s == pytest.approx(step_s, rel=0.1)
    assert limit.half_step_s == pytest.approx(half_s, rel=0.2)
    text = " ".join(report.to_text().split())
    assert "If this took half as long, a step would take" in text and "Nothing stands out" not in text


@pytest.mark.parametrize(("cause", "ranks"), [("lock", 1), ("python", 2)])
def test_threads_that_hold_locks_and_loops_of_python_are_named(tmp_path: Path, cause: str, ranks: int) -> None:
    lines = PROGRAM.read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text.endswith(f"# <- {cause}"))
    for attempt in attempts(3):
        report, _ = recorded(tmp_path / str(attempt), ranks, cause, 1.0)
        found = [(one.kind, one.line, one.ranks) for one in report.findings]
        if (KINDS[cause], line, list(range(ranks))) in found:
            return
    pytest.fail(f"{found}\n{report.to_text()}", pytrace=False)


@pytest.mark.measured
@pytest.mark.parametrize("ranks", [1, 2])
def test_steps_that_only_compute_have_no_cause(tmp_path: Path, ranks: int) -> None:
    report, _ = recorded(tmp_path / "run", ranks, "nothing", 1.0)
    assert not [finding.kind for finding in report.findings if finding.kind.endswith("-bound")]
    assert "What limits a step" in report.to_text()
