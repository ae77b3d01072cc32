"""A job in which one rank compiles anew in every step: the finding says so, with how often and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from tests.attempts import attempts
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()

PROGRAM = Path(__file__).resolve().parent / "programs" / "recompiling.py"
STEPS = 6
WITHIN = 0.1
"""How far seconds may be off."""


def wrong(folder: Path) -> list[str]:
    """What the report of one recording has wrong."""
    done = jobs.forked(2, str(PROGRAM), record=folder)
    assert done.returncode == 0, done.stderr
    planted_s = float(done.stdout.split()[1])
    report = scalana.analyze(folder)
    line = 1 + next(at for at, text in enumerate(PROGRAM.read_text().splitlines()) if text.endswith("# compiled"))
    first = report.findings[0]
    told = first.evidence.as_dict().get("compiling")
    if (first.line, first.ranks) != (line, [1]) or not isinstance(told, dict):
        return [
            f"{(one.line, one.ranks, one.lost_s, one.evidence.as_dict().get('compiling'))}" for one in report.findings
        ]
    found = []
    if (told["compilations"], told["again"], told["compilations_others"]) != (STEPS, STEPS, 0):
        found.append(f"compilations: {told}")
    if told["seconds"] > first.evidence.as_dict()["seconds_here"] * (
        1 + WITHIN
    ):  # without what is compiled in another line
        found.append(f"{told['seconds']:.3f} s of {first.evidence.as_dict()['seconds_here']:.3f} s")
    if first.lost_s != pytest.approx(planted_s, rel=WITHIN):
        found.append(f"{first.lost_s:.3f} s, measured {planted_s:.3f} s")
    if "torch.compile" not in report.to_text() or "mark_dynamic" not in first.advice:
        found.append(first.advice)
    return found


@pytest.mark.slow
def test_compiling_anew_is_told(tmp_path: Path) -> None:
    for attempt in attempts(3):
        told = wrong(tmp_path / str(attempt))
        if not told:
            return
    pytest.fail("\n".join(told), pytrace=False)
