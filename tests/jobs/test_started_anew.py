"""A loader that starts its workers in each epoch is said so, with what workers that are kept save."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from tests.jobs.test_launching import line_of
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parent / "programs" / "started_anew.py"


def test_the_loop_over_a_loader_that_starts_its_workers_again_is_named(tmp_path: Path) -> None:
    done = jobs.with_torch(str(PROGRAM), "0", record=tmp_path)
    assert done.returncode == 0, done.stderr
    waited_s = float(done.stdout)
    report = scalana.analyze(tmp_path)
    first = report.findings[0]
    assert (first.kind, Path(first.file).name, first.line) == (
        *("input-bound", PROGRAM.name),
        line_of(PROGRAM, "<- asks"),
    )
    known = first.evidence.worker_starts
    assert known is not None and known.worker_starts == 3
    assert 0.4 <= known.worker_start_s
    assert first.saving_s >= 0.9 * 3 * 0.4 and first.lost_s >= 0.9 * waited_s - 0.3
    text = " ".join(report.to_text().split())
    assert "persistent_workers=True" in text and "3 times after the first epoch" in text
    assert "num_workers=" not in text.partition("What limits")[0]


def test_workers_that_are_kept_are_not(tmp_path: Path) -> None:
    done = jobs.with_torch(str(PROGRAM), "1", record=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(finding.evidence.worker_starts is None for finding in scalana.analyze(tmp_path).findings)
