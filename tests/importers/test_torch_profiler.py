"""Traces that torch.profiler makes here, of ranks that communicate by gloo: the planted line must come out."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from scalana.importers.registry import import_traces
from tests.needs import torch_or_skip
from tests.runtime.jobs import forked

torch_or_skip()
pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "programs"
LINES = (PROGRAMS / "profiled.py").read_text().splitlines()


def first_finding(folder, *options):
    """Of a job with the planted fault."""
    (folder / "traces").mkdir()
    done = forked(4, str(PROGRAMS / "profiled.py"), folder / "traces", *options)
    assert done.returncode == 0, done.stderr
    import_traces([str(folder / "traces")], str(folder / "run"), str(PROGRAMS))
    report = scalana.analyze(folder / "run")
    assert report.findings, report.to_text()
    return report.findings[0]


@pytest.mark.measured
def test_with_stacks_the_line_is_named(tmp_path):
    finding = first_finding(tmp_path, "stacks")
    assert (finding.kind, finding.ranks, finding.function) == ("late-ranks", [2], "augment")
    assert finding.line == 1 + next(row for row, line in enumerate(LINES) if "torch.tanh(" in line)
    assert finding.lost_share > 0.5


@pytest.mark.measured
def test_without_stacks_the_operator_is_named(tmp_path):
    finding = first_finding(tmp_path)
    assert finding.ranks == [2] and finding.function in ("aten::mm", "aten::matmul", "aten::tanh")
