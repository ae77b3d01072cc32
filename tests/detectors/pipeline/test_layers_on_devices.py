"""Layers of pipelines that run on emulated devices, far behind their hosts: what they take, and what a new split of
them would bring, beside what it brings."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

import scalana
from scalana.detectors.pipeline.model.actions import Kind
from tests.needs import torch_or_skip
from tests.runtime.jobs import PROGRAMS, ROOT, environment
from tests.scalana.command import command
from tests.tools.emulated_device import Device

torch_or_skip()
pytestmark = [pytest.mark.slow, pytest.mark.measured]

STEPS = 5
MS = (6, 6, 6, 6, 6, 18, 6, 6)
"""What the layers take forward, and backward twice that, but the first, whose input has no gradient; the sixth is
heavy."""


def run(folder: Path, schedule: str, cut: str, record: bool = True) -> float:
    """Run the job; the median of what a step takes the devices, by what the job knows of them itself."""
    folder.mkdir()
    board = Device.make_board(folder / "board", 2)
    words = [sys.executable, PROGRAMS / "device_layers.py", board, folder / "store", STEPS, schedule, cut, *MS]
    ranks = []
    for rank in ("0", "1"):
        extra = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}
        env = environment(folder / "run" if record else None, extra)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        ranks.append(subprocess.Popen([str(word) for word in words], env=env, **pipes))
    told = []
    for process in ranks:
        said, failed = process.communicate(timeout=110)
        assert process.returncode == 0, failed
        told.append([tuple(map(int, line.split())) for line in said.splitlines()])
    steps = [(min(begin for begin, _ in step), max(end for _, end in step)) for step in zip(*told, strict=True)]
    return median(end - begin for begin, end in steps[1:]) * 1e-9


@pytest.mark.long
def test_a_heavy_layer_on_one_stage_is_known_and_the_new_split_is_as_predicted(tmp_path: Path) -> None:
    step_s = run(tmp_path / "as it is", "1F1B", "4,4")
    report = scalana.analyze(tmp_path / "as it is" / "run")
    (pipeline,) = report.analysis.sections["pipeline"]
    diagnosis = pipeline.diagnosis
    assert pipeline.recorded.on_device, report.to_text()
    assert diagnosis.attribution.step_s == pytest.approx(step_s, rel=0.03)
    assert diagnosis.layers.names == tuple("01230123")
    assert pipeline.recorded.layers.cost_s[Kind.F] * 1e3 == pytest.approx(MS, rel=0.03)
    assert pipeline.recorded.layers.cost_s[Kind.B] * 1e3 == pytest.approx([MS[0], *(2 * ms for ms in MS[1:])], rel=0.03)
    assert diagnosis.layers.share == pytest.approx([1.0, 1.0], rel=0.03)
    split = next(one for one in diagnosis.predictions if one.change == "repartition")
    sizes = ",".join(str(int(end - begin)) for begin, end in pairwise(split.cut))
    assert sizes == "5,3" and split.step_s < 0.9 * step_s
    assert run(tmp_path / "split anew", "1F1B", sizes, record=False) == pytest.approx(split.step_s, rel=0.03)
    first = report.findings[0]
    assert first.kind == "pipeline-imbalance" and "5/3" in first.advice, report.to_text()
    costs = tmp_path / "layers.json"
    assert command("pipeline", "layers", tmp_path / "as it is" / "run", "-o", costs).returncode == 0
    told = [one["forward_s"] * 1e3 for one in json.loads(costs.read_text())["layers"]]
    assert told == pytest.approx(MS, rel=0.03)


def test_the_parts_of_a_split_backward_are_told_by_layer(tmp_path: Path) -> None:
    run(tmp_path / "job", "ZBV", "2,2,2,2")
    (pipeline,) = scalana.analyze(tmp_path / "job" / "run").analysis.sections["pipeline"]
    assert pipeline.recorded.on_device
    cost_ms = pipeline.recorded.layers.cost_s * 1e3
    later = list(MS[2:])
    # The first stage has no part I: its W is the whole backward.
    assert cost_ms[Kind.F] == pytest.approx(MS, rel=0.03)
    assert cost_ms[Kind.I] == pytest.approx([0, 0, *later], rel=0.03)
    assert cost_ms[Kind.W] == pytest.approx([MS[0], 2 * MS[1], *later], rel=0.03)
    assert not cost_ms[Kind.B].any()
