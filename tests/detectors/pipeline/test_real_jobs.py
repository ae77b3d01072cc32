"""The whole way: real jobs of torch.distributed.pipelining on gloo, recorded by scalana run, with planted causes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
JOB = ROOT / "tests" / "tools" / "pipeline_job.py"
pytestmark = pytest.mark.slow


def report(tmp_path: Path, *options: str) -> dict[str, Any]:
    """The JSON report of a job."""
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    command = [sys.executable, "-m", "scalana", "run", "-o", str(folder), "--", *launcher, str(JOB), "--steps", "3"]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=300, cwd=ROOT)
    assert (folder / "timeline.svg").read_text().startswith("<svg ")
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    (pipeline,) = found["pipeline"]
    assert sum(pipeline["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert abs(pipeline["replay_s"] / pipeline["step_s"] - 1) < 0.05
    return found


def test_a_balanced_pipeline_blames_no_rank(tmp_path: Path) -> None:
    found = report(tmp_path, "--schedule", "1F1B")
    assert [f for f in found["findings"] if f["ranks"] and f["lost_share"] > 0.1] == []
    assert found["pipeline"][0]["shares"]["schedule"] == pytest.approx(0.27, abs=0.05)


@pytest.mark.parametrize(
    "planted, kind, ranks, share",
    [
        (["--layers", "4", "--head", "3"], "pipeline-imbalance", [3], ("imbalance", 0.22)),
        (["--straggler", "1:2.5:3"], "pipeline-straggler", [1], ("straggler", 0.20)),
        (["--latency", "1:2:40"], "pipeline-link", [1, 2], None),
        (["--host", "2:8"], "pipeline-host", [2], None),
    ],
)
def test_a_planted_cause_is_told_with_its_rank_and_line(
    planted: list[str], kind: str, ranks: list[int], share: tuple[str, float] | None, tmp_path: Path
) -> None:
    found = report(tmp_path, "--schedule", "1F1B", *planted)
    causes = [f for f in found["findings"] if f["ranks"]]
    assert [(f["kind"], f["ranks"]) for f in causes[:1]] == [(kind, ranks)]
    assert causes[0]["root"]["file"].endswith("pipeline_job.py") and causes[0]["root"]["line"] > 0
    if kind == "pipeline-imbalance":
        assert causes[0]["root"]["stage"] == 3 and causes[0]["root"]["module"] == "layers.lm_head"
        assert causes[0]["evidence"]["split"].startswith("5/5/5")
    if share is not None:
        assert found["pipeline"][0]["shares"][share[0]] == pytest.approx(share[1], abs=0.06)
