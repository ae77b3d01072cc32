"""Ranks without a record are unknown, not absent: what the others show still counts, as far as it goes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import scalana
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.detector import without_unknown
from scalana.graphs.run_info import RunInfo
from tests.scalana.recorded import PREPARE_LINE, STEPS, write_run

WORK_MS = (10, 20, 60, 15)


def half(tmp_path: Path, *ranks: int) -> scalana.Report:
    """The analysis of the records of some ranks of four, of which rank 2 is late in every step."""
    write_run(tmp_path / "run", tmp_path / "job", WORK_MS)
    for rank in set(range(4)) - set(ranks):
        (tmp_path / "run" / "records" / f"host-{100 + rank}-0.rec").unlink()
    return scalana.analyze(tmp_path / "run")


def test_the_half_with_the_cause_names_it(tmp_path: Path) -> None:
    report = half(tmp_path, 2, 3)
    first = report.findings[0]
    assert (first.line, first.ranks) == (PREPARE_LINE, [2])
    assert report.time.wait_s == pytest.approx(STEPS * 0.045, rel=0.1)
    assert any("no record of ranks 0, 1 of 4" in warning and "unknown" in warning for warning in report.warnings)


def test_the_half_without_it_is_a_lower_bound_and_says_what_lacks(tmp_path: Path) -> None:
    report = half(tmp_path, 0, 1)
    assert 0 < report.time.wait_s <= 1.05 * STEPS * 0.010
    assert all(set(finding.ranks) <= {0, 1} for finding in report.findings)
    text = report.to_text()
    assert "ranks 2, 3" in text
    if not report.findings:
        assert "The records of ranks 2, 3 are not here" in " ".join(text.split())


def test_one_record_alone_blames_nobody(tmp_path: Path) -> None:
    report = half(tmp_path, 0)
    assert not report.findings and report.time.wait_s == 0
    assert "not here" in " ".join(report.to_text().split())


@pytest.mark.parametrize(
    ("run", "kinds"),
    [
        (RunInfo(ranks=3), ["slow-transfer", "late-ranks"]),
        (RunInfo(ranks=3, missing_ranks=[1]), ["late-ranks"]),
        (RunInfo(ranks=3, unrecorded_results=2), ["late-ranks"]),
    ],
)
def test_what_may_be_waiting_for_a_process_without_a_record_is_no_transfer(run: RunInfo, kinds: list[str]) -> None:
    some = [cast(Finding, SimpleNamespace(kind=kind)) for kind in ("slow-transfer", "late-ranks")]
    assert [finding.kind for finding in without_unknown(some, run)] == kinds
