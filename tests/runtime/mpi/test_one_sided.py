"""Epochs and locks of windows, and neighbourhood collectives: who waits for whom in real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from tests.long import also

from .conftest import Mpi
from .test_native import lines_of

pytestmark = pytest.mark.slow


@pytest.mark.measured
@pytest.mark.parametrize("by", ["fence", "lock", "posted", *also("epochs", "neighbours")])
def test_the_slow_rank_is_found_through(mpi: Mpi, by: str) -> None:
    report = scalana.analyze(mpi.record(4, mpi.compile("one_sided.c"), by))
    finding = report.findings[0]
    assert Path(finding.file).name == "one_sided.c"
    assert finding.line in lines_of("one_sided.c", "/* slow */"), report.to_text()
    assert finding.ranks == [2]
    # 20 times 20 ms on rank 2, for which at least one other rank waits all the time.
    assert finding.lost_s > 0.3, report.to_text()
