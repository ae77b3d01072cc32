"""The whole diagnosis: on a modelled run with a known answer, and on a real job of torch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.pipeline.diagnosis.attribution import SHARES
from scalana.detectors.pipeline.diagnosis.diagnose import diagnose, scale_layers
from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.model.engines import ENGINES, torch_engine, variant
from scalana.detectors.pipeline.model.schedules import BY_NAME
from tests.detectors.pipeline.examples import rows_of, uniform
from tests.detectors.pipeline.truth import read_truth
from tests.needs import torch_or_skip
from tests.tools.fork_server import launcher

MS = 1e-3
JOB = Path(__file__).parents[2] / "tools" / "pipeline_job.py"


def heavy_head() -> tuple[np.ndarray, Layers]:
    """Costs of four stages of four layers, the last with a head as expensive as three more; the layers' in percent."""
    costs = uniform(4, 20 * MS, 40 * MS, 0, 0)
    costs[:, 3] *= 1.75
    layers = np.zeros((4, 17))
    layers[Kind.F], layers[Kind.B] = 25, 25
    layers[:2, 16] = 75
    names = (*(f"layers.{i}" for i in range(16)), "lm_head")
    return costs, Layers(names, layers, np.array([0, 4, 8, 12, 17]))


def test_a_heavy_head_is_told_with_its_cure() -> None:
    costs, layers = heavy_head()
    rows = rows_of(BY_NAME["1F1B"].program(4, 8), costs, "torch-1f1b", steps=3, meet=True)
    found = diagnose(rows, ENGINES["torch-1f1b"], layers=layers)
    assert found.schedule == "1F1B" and found.wall == ""
    assert found.layers is not None
    assert found.layers.cost_s[Kind.F, 16] == pytest.approx(15 * MS)
    assert found.layers.cost_s[Kind.B, 0] == pytest.approx(10 * MS)
    cures = {one.change: one for one in found.predictions}
    assert cures["repartition"].text == "5/5/5/2"
    assert cures["repartition"].step_s == pytest.approx(795 * MS)
    assert cures["bound"].step_s == pytest.approx(570 * MS)
    assert all(one.step_s >= 570 * MS for one in found.predictions)
    assert found.predictions[-1].change == "bound"
    section = found.section("torch", [4, 5, 6, 7])
    assert set(section["shares"]) == set(SHARES)
    assert section["stage"][3]["rank"] == 7 and section["stage"][3]["layers"][-1]["name"] == "lm_head"
    assert (section["microbatches"], section["stages"], section["steps"]) == (8, 4, 3)
    json.dumps(section, allow_nan=False)


def test_without_layers_only_what_keeps_the_stages_is_proposed() -> None:
    rows = rows_of(BY_NAME["1F1B"].program(4, 8), heavy_head()[0], "torch-1f1b", steps=2, meet=True)
    found = diagnose(rows, ENGINES["torch-1f1b"])
    assert "repartition" not in {one.change for one in found.predictions}
    assert {one.text.split(",")[0] for one in found.predictions if one.change == "schedule"} <= {"ZB-H1"}
    assert "layers" not in found.section("torch", [0, 1, 2, 3])["stage"][0]


def test_layers_of_an_unsplit_backward_serve_a_split_one() -> None:
    rows = rows_of(BY_NAME["ZB-H1"].program(4, 8), uniform(4, 20 * MS, 0, 24 * MS, 16 * MS), steps=1)
    layers = heavy_head()[1]
    found = diagnose(rows, ENGINES["ideal"], layers=layers)
    scaled = scale_layers(found.attribution, layers)
    assert np.add.reduceat(scaled.cost_s[Kind.I], layers.cut[:-1]) == pytest.approx([24 * MS] * 4)
    assert scaled.cost_s[Kind.W, 16] / scaled.cost_s[Kind.W, 12] == pytest.approx(3)


def test_other_schedules_are_run_by_the_engine_that_would_run_them() -> None:
    names = {
        name: [variant(ENGINES[engine], BY_NAME[name].program(4, 8)).name for engine in ("torch-1f1b", "megatron")]
        for name in ("GPipe", "1F1B", "ZB-H1", "Interleaved1F1B")
    }
    assert names == {
        "GPipe": ["torch-gpipe", "megatron"],
        "1F1B": ["torch-1f1b", "megatron"],
        "ZB-H1": ["torch", "megatron"],
        "Interleaved1F1B": ["torch", "megatron-interleaved"],
    }


@pytest.mark.measured
@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule, planted, share, stage",
    [
        ("ZBVZeroBubble", ["--slow", "3:1.75"], "imbalance", 3),
        ("Interleaved1F1B", ["--latency", "20"], "link", None),
    ],
)
def test_a_cause_planted_into_a_real_job_is_found(
    schedule: str, planted: list[str], share: str, stage: int | None, tmp_path: Path
) -> None:
    """Of schedules other than 1F1B, which ``tests/jobs/test_pipelines.py`` has with the same causes."""
    torch_or_skip()
    options = ["--schedule", schedule, "--steps", "2", "--truth", str(tmp_path / "truth.json"), *planted]
    subprocess.run([*launcher(4), str(JOB), *options], check=True, capture_output=True, timeout=120)
    rows, between = read_truth(tmp_path / "truth.json")
    found = diagnose(rows, torch_engine(schedule), between)
    assert found.schedule == {"ZBVZeroBubble": "ZBV"}.get(schedule, schedule)
    assert found.attribution.trusted
    shares = found.attribution.shares
    assert sum(shares.values()) == pytest.approx(1)
    causes = {name: shares[name] for name in SHARES[2:]}
    assert max(causes, key=lambda name: causes[name]) == share
    if stage is not None:
        assert max(found.attribution.stages, key=lambda s: s.critical_share).stage == stage
