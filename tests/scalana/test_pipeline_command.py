"""``scalana pipeline``: from layer costs or a run to a folder with a plan, and the plan carried out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from scalana import plans
from scalana.cli import main
from scalana.detectors.pipeline.diagnosis.diagnose import diagnose
from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.detectors.pipeline.model.torch_csv import parse_torch_csv
from scalana.detectors.pipeline.plans.from_run import profile_of
from scalana.detectors.pipeline.plans.in_report import with_plan
from scalana.detectors.pipeline.plans.plan import make_plan
from scalana.verify.run import RUNNERS
from tests.detectors.pipeline.examples import rows_of, uniform

ROOT = Path(__file__).resolve().parents[2]
MS = 1e-3


def costs(layers: int = 9, head: float = 3.0, **others: Any) -> dict[str, Any]:
    """A file of layer costs."""
    rows = [{"name": f"layer{i}", "forward_s": 0.01, "backward_s": 0.02} for i in range(layers)]
    rows.append({"name": "head", "forward_s": 0.01 * head, "backward_s": 0.02 * head, "outside": True})
    return {"schema": "scalana.layers/1", "ranks": 2, "microbatches": 4, "layers": rows} | others


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(costs()))
    return path


def valid(name: str, document: Any) -> None:
    schema = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)


def test_a_plan_is_printed_and_written(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid("layers", json.loads(file.read_text()))
    assert main(["pipeline", "plan", str(file), "-o", str(tmp_path / "plan"), "--budget", "1"]) == 0
    said = capsys.readouterr().out
    assert "10 layers · 2 ranks · 4 microbatches" in said and "Interleaved1F1B" in said and "bound" in said
    assert ("not measured" in said) == ("backward split" in said)  # half of a backward each is what was assumed
    for engine in ("torchtitan", "Megatron", "DeepSpeed"):
        assert f"  {engine} (" in said
    document = json.loads((tmp_path / "plan" / "plan.json").read_text())
    valid("plan", document)
    valid("layers", document["profile"])
    written = plans.read_written(str(tmp_path / "plan"))
    order = parse_torch_csv((tmp_path / "plan" / "plan.csv").read_text())
    assert order.microbatches == 4 and order.rank_of_stage.tolist() == written.plan.stages.rank.tolist()
    assert document["plan"]["step_s"] < document["uniform"]["step_s"]
    assert max(document["plan"]["memory"]) <= max(document["uniform"]["memory"])
    assert sum((stage["layers"] for stage in document["plan"]["stages"]), []) == [*written.profile.names]
    for engine in ("torchtitan", "megatron", "deepspeed"):
        one = plans.read_written(str(tmp_path / "plan"), engine)
        (said_of,) = [means for means in document["engines"] if means["engine"].lower() == engine]
        assert one.settings == tuple(said_of["settings"]) and one.plan.step_s == said_of["plan"]["step_s"]
        again = make_plan(one.profile, one.plan.stages, one.plan.program, ENGINES[RUNNERS[engine].model], "")
        assert again.step_s == pytest.approx(one.plan.step_s)
    (tmp_path / "plan" / "megatron.args").unlink()
    assert main(["pipeline", "verify", str(tmp_path / "plan"), "--engine", "megatron"]) == 1
    assert "megatron.args" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, says",
    [
        (["--memory", "3"], "nothing fits into the memory"),
        (["--memory", "lots"], "not an amount of memory"),
        (["--recompute"], "needs the bytes"),
        (["--memory", "9", "--any-memory"], "exclude each other"),
        (["--ranks", "20"], "cannot be given to 20 ranks"),
    ],
)
def test_what_cannot_be_planned_is_said(
    options: list[str], says: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["pipeline", "plan", str(file), "--budget", "1", *options])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code in (1, 2)
    assert says in capsys.readouterr().err


def test_profiles_of_others_become_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "nano.json"
    other.write_text(json.dumps({"pattern": "MMM", "forward_ms": {"M": 2}, "backward_ms": {"M": 4}}))
    out = tmp_path / "layers.json"
    assert main(["pipeline", "layers", str(other), "-o", str(out)]) == 1
    assert "give --ranks and --microbatches" in capsys.readouterr().err
    assert main(["pipeline", "layers", str(other), "-o", str(out), "--ranks", "2", "--microbatches", "4"]) == 0
    valid("layers", json.loads(out.read_text()))
    assert len(plans.read_profile(str(out)).names) == 3
    assert main(["pipeline", "verify", str(out)]) == 1
    assert "is not a plan" in capsys.readouterr().err


def diagnosed(schedule: str = "1F1B", split: bool = False) -> Any:
    """Two steps of four stages of four layers, the last one with a head that costs three more."""
    layer = np.zeros((4, 17))
    layer[Kind.F], layer[Kind.B if not split else Kind.I] = 5 * MS, 10 * MS
    layer[:, 16] *= 3
    cut = np.array([0, 4, 8, 12, 17])
    stage = uniform(4, 20 * MS, 40 * MS)
    stage[:, 3] *= 1.75
    rows = rows_of(BY_NAME[schedule].program(4, 8), stage, "torch-1f1b", steps=2, meet=True)
    names = (*(f"layers.{i}" for i in range(16)), "lm_head")
    return diagnose(rows, ENGINES["torch-1f1b"], None, Layers(names, layer, cut))


def test_the_costs_of_a_run_are_its_layers() -> None:
    profile = profile_of(diagnosed())
    assert profile.names[-1] == "lm_head" and profile.outside == (16,)
    assert profile.seconds[Kind.F, :4].sum() == pytest.approx(20 * MS)
    assert profile.seconds[Kind.B, 16] == pytest.approx(3 * profile.seconds[Kind.B, 12])
    assert profile.now is not None and profile.now.rank_of_layer == (*[0] * 4, *[1] * 4, *[2] * 4, *[3] * 5)
    assert profile.now.peak == 16 and (profile.ranks, profile.microbatches) == (4, 8)


@pytest.mark.slow
def test_a_report_has_the_plan_among_its_what_ifs() -> None:
    diagnosis, proposal = with_plan(diagnosed())
    assert proposal is not None
    (one,) = [each for each in diagnosis.predictions if each.change == "plan"]
    assert one.file == "plan/plan.csv" and one.peak_activations <= 16
    others = [each for each in diagnosis.predictions if each.change in ("repartition", "schedule")]
    assert one.step_s < 0.85 * next(each.step_s for each in others if each.change == "repartition")
    entry = next(each for each in diagnosis.section("torch", [0, 1, 2, 3])["what_if"] if each["change"] == "plan")
    assert entry["file"] == "plan/plan.csv"
    assert [each.change for each in diagnosis.predictions][-1] == "bound"
    object.__setattr__(diagnosis.attribution, "replay_s", 2 * diagnosis.attribution.step_s)
    assert with_plan(diagnosis)[1] is None
