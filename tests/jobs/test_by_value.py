"""Code that came by value is the program's own: its line is named, and nothing that starts processes is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana import api
from tests.attempts import attempts
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.runtime import jobs

pytestmark = pytest.mark.slow

PROGRAM = PROGRAMS / "by_value.py"


@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_the_line_of_code_that_came_by_value_is_named(start: str, tmp_path: Path) -> None:
    for attempt in attempts(2):
        folder = tmp_path / str(attempt)
        done = jobs.run([sys.executable, PROGRAM, start], folder)
        assert done.returncode == 0 and done.stderr == ""
        report = api.analyze(folder)
        finding, took_s = report.findings[0], float(done.stdout)
        assert (Path(finding.file).name, finding.function) == (PROGRAM.name, "extra")
        assert abs(finding.line - line_of(PROGRAM, "by value")) <= 1
        assert "<string>" not in report.to_text()
        assert "<dynamic-code>" not in report.to_text()
        if finding.evidence.place.seconds_here == pytest.approx(took_s, rel=0.25):
            break
    else:
        pytest.fail(f"{finding.evidence.place} are told, and not {took_s} s")
