"""A pipeline of torch that scalana records on emulated devices: its stages take exactly what they are to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import scalana
from tests.needs import torch_or_skip
from tests.runtime.jobs import PROGRAMS, ROOT, environment
from tests.tools.emulated_device import Device

torch_or_skip()
pytestmark = [pytest.mark.slow, pytest.mark.measured]

STEPS = 5
FORWARD_S, MICROBATCHES = 0.008, 8
STEP_S = 3 * FORWARD_S + MICROBATCHES * 6 * FORWARD_S
"""Fill and drain through stage 0, and stage 1 all the time."""


def test_the_stage_that_takes_twice_as_long_is_found(tmp_path: Path) -> None:
    board = Device.make_board(tmp_path / "board", 2)
    command = [sys.executable, PROGRAMS / "device_two_stages.py", board, tmp_path / "store", str(STEPS)]
    ranks = []
    for rank in ("0", "1"):
        extra = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}
        env = environment(tmp_path / "run", extra)
        ranks.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    for process in ranks:
        said = process.communicate(timeout=110)[1]
        assert process.returncode == 0, said
    report = scalana.analyze(tmp_path / "run")
    (pipeline,) = report.analysis.sections["pipeline"]
    found = pipeline.diagnosis.attribution
    assert pipeline.recorded.on_device, report.to_text()
    assert found.step_s == pytest.approx(STEP_S, rel=0.05)
    assert abs(found.replay_error) < 0.02
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert [stage.load for stage in found.stages] == pytest.approx([2 / 3, 4 / 3], rel=0.02)
    assert found.shares["imbalance"] == pytest.approx((17 - 13.5) / 17, abs=0.03)
    assert found.shares["host"] < 0.02
    first = report.findings[0]
    assert (first.kind, first.ranks, first.where.stage) == ("pipeline-imbalance", [1], 1), report.to_text()
    # What the pipeline says of its devices, late kernels and having nothing to do, nobody else says again.
    assert not {"device-late", "launch-gap"} & {finding.kind for finding in report.findings}
