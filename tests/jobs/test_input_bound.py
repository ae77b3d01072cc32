"""Ranks that all wait for their loaders of data: said so, with what more workers bring, which is then tried."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import scalana
from tests.attempts import attempts
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parent / "programs" / "input_bound.py"


def recorded(folder: Path, ranks: int, workers: int, sample_ms: float) -> tuple[scalana.Report, float, float]:
    """The report of a job, and what it says itself that a step took, and that it waited in a step."""
    arguments = [str(PROGRAM), str(workers), str(sample_ms)]
    done = jobs.forked(ranks, *arguments, record=folder) if ranks > 1 else jobs.with_torch(*arguments, record=folder)
    assert done.returncode == 0, done.stderr
    step_s, wait_s = map(float, done.stdout.split()[-2:])
    return scalana.analyze(folder), step_s, wait_s


@pytest.mark.measured
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_ranks_that_all_wait_for_data_are_told_how_many_workers_help(tmp_path: Path, ranks: int) -> None:
    line = 1 + next(at for at, text in enumerate(PROGRAM.read_text().splitlines()) if text.endswith("# <- read"))
    for attempt in attempts(2):
        report, step_s, wait_s = recorded(tmp_path / f"one-{attempt}", ranks, 1, 20)
        first = report.findings[0]
        assert (first.kind, first.line, first.ranks) == ("input-bound", line, list(range(ranks)))
        assert first.evidence.loading is not None and first.evidence.input_bound is not None
        assert (first.evidence.loading.dataset, first.evidence.loading.workers) == ("Photos", 1)
        bound = first.evidence.input_bound
        predicted = dict(zip(bound.predicted_workers, bound.predicted_step_s, strict=True))
        _, better_s, _ = recorded(tmp_path / f"two-{attempt}", ranks, 2, 20)
        near = bound.step_s == pytest.approx(step_s, rel=0.1) and bound.data_s == pytest.approx(wait_s, rel=0.1)
        if near and predicted[2] == pytest.approx(better_s, rel=0.15):
            break
    assert bound.step_s == pytest.approx(step_s, rel=0.1)
    assert bound.data_s == pytest.approx(wait_s, rel=0.1)
    assert predicted[2] == pytest.approx(better_s, rel=0.15)
    text = " ".join(report.to_text().split())
    assert "waiting for data" in text and "With 2 workers a step takes" in text and "belongs to no rank" not in text
    assert [finding.kind for finding in report.findings if finding.line == line] == ["input-bound"]
    in_steps = text.partition("Where the time goes")[2].partition("outside the steps")[0]
    assert "Photos.__getitem__" in in_steps and " import" not in in_steps


@pytest.mark.measured
def test_a_loader_that_is_ahead_limits_nothing(tmp_path: Path) -> None:
    report, _, _ = recorded(tmp_path / "run", 2, 2, 0.5)
    assert not any(finding.kind == "input-bound" for finding in report.findings)


def test_no_number_of_workers_computes_faster_than_the_cores(tmp_path: Path) -> None:
    """What ranks load without workers they compute themselves, and so would workers on the same cores."""
    cores = len(os.sched_getaffinity(0))
    done = jobs.forked(2, str(PROGRAM.with_name("computed_samples.py")), record=tmp_path / "run")
    assert done.returncode == 0, done.stderr
    cpu_s = max(map(float, done.stdout.split()))
    first = scalana.analyze(tmp_path / "run").findings[0]
    assert first.kind == "input-bound" and first.evidence.input_bound is not None
    assert first.evidence.input_bound.predicted_step_s
    assert min(first.evidence.input_bound.predicted_step_s) >= 0.8 * cpu_s * 2 / cores
