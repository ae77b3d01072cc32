"""What ranks do by themselves, in a real job: one after the other at the start, and rank 0 in some steps."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from tests.needs import torch_or_skip
from tests.runtime import jobs

PROGRAM = Path(__file__).resolve().parent / "programs" / "single_ranks.py"
LINES = PROGRAM.read_text(encoding="utf-8").splitlines()


def line_of(mark: str) -> int:
    (line,) = (number for number, text in enumerate(LINES, 1) if text.endswith(f"# {mark}"))
    return line


@pytest.mark.slow
@pytest.mark.measured
def test_rounds_and_evaluations_are_as_the_program_counts_them(tmp_path: Path) -> None:
    torch_or_skip()
    done = jobs.run([*jobs.launcher(3), PROGRAM], tmp_path / "run")
    assert done.returncode == 0, done.stderr
    rows = sorted(line.split() for line in done.stdout.splitlines() if len(line.split()) == 4)
    prepared_s = [float(row[1]) for row in rows]
    found = {finding.line: finding for finding in scalana.analyze(tmp_path / "run").findings}
    rounds = found[line_of("in rounds")]
    assert rounds.kind == "in-rounds" and [turn.ranks for turn in rounds.evidence.turns] == [[0], [1], [2]]
    assert [turn.seconds for turn in rounds.evidence.turns] == pytest.approx(prepared_s, rel=0.3)
    assert rounds.saving_s == pytest.approx(sum(prepared_s) - max(prepared_s), rel=0.3)
    alone = found[line_of("rank 0 alone")]
    assert alone.ranks == [0] and alone.evidence.in_steps.counted
    assert alone.evidence.in_steps.steps == int(rows[0][2])
    assert alone.evidence.place.seconds_here == pytest.approx(float(rows[0][3]), rel=0.3)
