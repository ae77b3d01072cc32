"""Plans carried out: by torch's runtime with emulated layers and with real ones, and by other engines, where ``make
pipeline`` has put them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana import plans
from scalana.cli import main
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.plans.document import Written
from scalana.detectors.pipeline.plans.profile_file import read_document
from scalana.detectors.pipeline.plans.proposal import Asked, propose
from scalana.detectors.pipeline.plans.search import Effort
from scalana.errors import CommandError
from scalana.verify.run import RUNNERS, How, check_plan, job_of, present, replayed_s, told
from tests.attempts import attempts
from tests.long import also
from tests.runtime.pipeline.engine_jobs import folder_of

LAYERS = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with its settings: layers of a language model, on two ranks."""
    rows = [{"name": f"layers.{i}", "forward_s": 0.01, "backward_s": 0.02} for i in range(LAYERS - 1)]
    rows.insert(0, {"name": "embed", "forward_s": 0.002, "backward_s": 0.004, "outside": True})
    rows.append({"name": "head", "forward_s": 0.03, "backward_s": 0.06, "outside": True})
    costs = {"schema": "scalana.layers/1", "ranks": 2, "microbatches": 4, "latency_s": 0.004, "layers": rows}
    proposal = propose(read_document(costs, "costs"), Asked(front=False, wall=False), Effort(actions=2e5))
    where = tmp_path_factory.mktemp("plans") / "plan"
    plans.write_proposal(proposal, str(where))
    return where


def close(written: Written, how: How) -> None:
    """Carry it out, twice if need be."""
    for _ in attempts(2):
        checked = check_plan(written, how)
        assert len(checked.steps_s) == how.steps
        if abs(checked.error) < 0.1:
            return
    raise AssertionError(checked)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "deepspeed", *also("torchtitan", "megatron")])
def test_a_step_takes_what_was_predicted(engine: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    if engine != "torch":
        monkeypatch.setenv("PYTHONPATH", str(folder_of(engine)))
    # torchtitan's stages are the smallest ones.
    close(plans.read_written(str(folder), engine), How(steps=2, stretch=6.0 if engine == "torchtitan" else 3.0))


MODEL = """
import torch
from torch import nn

class Residual(nn.Linear):
    def forward(self, x):
        return x + torch.tanh(super().forward(x))

def make():
    model = nn.Sequential(*(Residual(256, 256) for _ in range(8)))
    return model, torch.randn(512, 256)

def crossed():
    class Crossed(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + x
    return Crossed(*make()[0]), torch.randn(4, 256)
"""


@pytest.mark.slow
def test_the_layers_of_a_model_are_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "nets.py").write_text(MODEL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["pipeline", "verify", str(folder), "--model", "nets:make", "--steps", "2"]) == 0
    said = capsys.readouterr().out
    assert "with the model's layers" in said and "the costs in the plan predict" in said
    assert main(["pipeline", "verify", str(folder), "--model", "nets:crossed"]) == 1
    assert "is not a sequence of its layers" in capsys.readouterr().err
    assert main(["pipeline", "verify", str(folder), "--model", "nets", "--engine", "torch"]) == 2
    assert main(["pipeline", "verify", str(folder), "--model", "nets:make", "--engine", "megatron"]) == 2


@pytest.mark.slow
def test_layers_are_found_by_name_or_by_number() -> None:
    torch = pytest.importorskip("torch")
    from scalana.verify.jobs.model import layers_of

    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.ReLU()))
    assert layers_of(model, ["0", "1.0", "1.1"]) == [model[0], model[1][0], model[1][1]]
    assert layers_of(model, ["first", "second"]) == [*model]
    with pytest.raises(SystemExit, match="lacks module first: it has 2 children, the plan 1 layers"):
        layers_of(model, ["first"])


def test_a_replay_of_what_actions_took_is_the_plan_again(folder: Path) -> None:
    written = plans.read_written(str(folder))
    profile, plan = written.profile, written.plan
    begins = plan.stages.cut[:-1]
    costs = np.add.reduceat(profile.seconds, begins, axis=1)
    program = plan.program
    rows = [
        (Kind(kind).name, int(stage), float(costs[kind, stage]) * times)
        for kind, stage in set(zip(program.kind.tolist(), program.stage.tolist(), strict=True))
        for times in (1, 1, 7)  # the median counts
    ]
    # Without the latency of the links a step takes a little less.
    assert 0.9 * plan.step_s < replayed_s(written, rows) < plan.step_s


def test_a_baseline_has_settings_of_its_engine(folder: Path, tmp_path: Path) -> None:
    for engine, said in (
        ("megatron", "Et*2|t*2|t|tL"),
        ("deepspeed", "[0, 4, 8]"),
        ("torchtitan", '"Interleaved1F1B"\n'),
    ):
        found = present(plans.read_written(str(folder), engine))
        assert found is not None
        base, schedule = found
        text = "\n".join(base.settings)
        assert said in text
        assert schedule in ("1F1B", "Interleaved1F1B")
        job = job_of(base, 2.0, 1, tmp_path, schedule)
        assert json.loads(json.dumps(job))["schedule"] == schedule
        assert Path(job["settings"]).name == RUNNERS[engine].settings
        assert job["layers"][-1]["costs"][0] == pytest.approx(0.06) and job["layers"][-1]["outside"]


@pytest.mark.parametrize("engine", ["torchtitan", "megatron", "deepspeed"])
def test_only_settings_of_scalana_are_run(
    engine: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []

    def run(written: Written, how: How, schedule: str = "") -> None:
        started.append("\n".join(written.settings))
        raise CommandError("ran")

    monkeypatch.setattr("scalana.verify.run.check_plan", run)
    plan = tmp_path / "plan"
    shutil.copytree(folder, plan)
    command = ["pipeline", "verify", str(plan), "--engine", engine]
    file = plan / RUNNERS[engine].settings
    assert main(command) == 1
    assert len(started) == 1 and f"running {file}\n" in capsys.readouterr().err
    file.write_text(file.read_text() + "import os  # foreign\n")
    assert main(command) == 1
    assert len(started) == 1 and f"{file} is not what scalana writes" in capsys.readouterr().err
    # Nor where the plan itself says that this is how it was written.
    document = json.loads((plan / "plan.json").read_text())
    for means in document["engines"]:
        if means["engine"].lower() == engine:
            means["settings"].append("import os  # foreign")
    (plan / "plan.json").write_text(json.dumps(document))
    assert main(command) == 1 and len(started) == 1
    capsys.readouterr()
    assert main([*command, "--run-changed"]) == 1
    assert "# foreign" in started[1] and f"running {file}, which was changed" in capsys.readouterr().err


def test_which_model_is_run_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "netted.py").write_text("raise SystemExit('imported by the command')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scalana.verify.run.check_plan", lambda *_: (_ for _ in ()).throw(CommandError("ran")))
    assert main(["pipeline", "verify", str(folder), "--model", "netted:make"]) == 1
    assert f"running make() of {tmp_path}/netted.py, as --model asks" in capsys.readouterr().err


def test_why_a_job_failed_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Traceback ...\n\nModuleNotFoundError: No module named 'megatron'\n"
    assert told(said, RUNNERS["megatron"]) == "verifying this plan needs megatron: pip install megatron-core"
    assert told(said, RUNNERS["deepspeed"]).endswith("failed:\nTraceback ...\n" + said.splitlines()[-1])
    # A job that ends without a word.
    monkeypatch.setitem(RUNNERS, "torch", replace(RUNNERS["torch"], module="absent"))
    with pytest.raises(CommandError, match="ended without a result"):
        check_plan(plans.read_written(str(folder)), How(steps=1))
