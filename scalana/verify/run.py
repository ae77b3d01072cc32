"""Have a plan carried out with emulated costs, and compare what it takes with the prediction."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES, variant
from scalana.detectors.pipeline.model.lowering import lower
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.detectors.pipeline.model.simulate import Setting, replay
from scalana.detectors.pipeline.model.torch_csv import write_torch_csv
from scalana.detectors.pipeline.plans.assignment import Stages, stage_costs_of
from scalana.detectors.pipeline.plans.document import Written, stages_of
from scalana.detectors.pipeline.plans.means import present_plan, settings_of
from scalana.detectors.pipeline.plans.plan import make_plan
from scalana.detectors.pipeline.plans.profile import LayerProfile
from scalana.errors import CommandError


@dataclass(frozen=True)
class Runner:
    """A program that carries plans out by an engine."""

    module: str
    package: str
    """What has to be installed."""
    install: str
    model: str
    """In :data:`~scalana.detectors.pipeline.model.engines.ENGINES`: by which its steps are predicted."""
    settings: str = ""
    """The name of the file with the engine's settings."""
    action_s: float = 0.02
    """What a usual action is stretched to: far above what a message on this machine takes."""
    patience_s: float = 240.0
    """For starting and ending processes."""
    slack: float = 0.75
    """Of a usual action: lateness below this is taken back. Where a rank waits in a send, lateness is real."""


RUNNERS = {
    "torch": Runner("torch_runtime", "torch", "torch", "torch"),
    "model": Runner("model", "torch", "torch", "torch", action_s=0.0, patience_s=3600.0),
    "torchtitan": Runner("torchtitan", "torchtitan", "torchtitan", "torch", "torchtitan.toml"),
    "megatron": Runner("megatron", "megatron", "megatron-core", "megatron", "megatron.args", 0.05, slack=0.1),
    "deepspeed": Runner("deepspeed", "deepspeed", "deepspeed", "deepspeed", "deepspeed.py", 0.05, slack=0.1),
}
"""By the names of engines on the command line; `model` is torch's runtime with layers of the user's."""
ORDER = "plan.csv"


@dataclass(frozen=True)
class Checked:
    """What a plan took."""

    engine: str
    predicted_s: float
    """In the profile's time, as :attr:`measured_s`."""
    measured_s: float
    """The median of the steps."""
    steps_s: tuple[float, ...]
    stretch: float
    """Times that costs were longer than in the profile."""
    late: int
    """Actions of all ranks that were so late that it counts as work: the machine was too busy. Only where no engine
    waits in a send."""

    planned_s: float | None = None
    """What the plan's costs predict, where :attr:`predicted_s` is by those that the job measured itself."""

    @property
    def error(self) -> float:
        """Of the prediction, over what was measured."""
        return self.predicted_s / self.measured_s - 1


def usual_action_s(profile: LayerProfile, written: Written) -> float:
    """Seconds of an action in the middle of the plan's."""
    costs = stage_costs_of(profile, written.plan.stages, ENGINES["ideal"], host=False)
    program = written.plan.program
    return float(np.median(costs.seconds[program.kind, program.stage]))


def present(written: Written) -> tuple[Written, str] | None:
    """What a plan is compared with, for the same engine: what runs now or the uniform plan, and the name of its
    schedule; None where it has none."""
    profile, engine = written.profile, RUNNERS[written.engine].model
    plan = present_plan(profile, engine)
    if plan is None:
        return None
    schedule = plan.text.removeprefix("uniform ").split(",")[0]
    settings = settings_of(written.engine, profile, plan, schedule)
    return replace(written, plan=plan, settings=settings), schedule


def job_of(written: Written, stretch: float, steps: int, folder: Path, schedule: str = "") -> dict[str, Any]:
    """What the job is told."""
    profile, plan, runner = written.profile, written.plan, RUNNERS[written.engine]
    travel = float(profile.output.mean()) / profile.bytes_per_s
    layers = zip(profile.names, (profile.seconds.T * stretch).tolist(), strict=True)
    return {
        "layers": [
            {"name": name, "costs": costs, "outside": i in profile.outside} for i, (name, costs) in enumerate(layers)
        ],
        # The host's time is part of what actions take: on this machine it is not what it was on the other.
        "host_s": profile.host_s * stretch,
        "stages": stages_of(profile, plan.stages),
        "microbatches": plan.program.microbatches,
        "order": str(folder / ORDER),
        "schedule": BY_NAME[schedule].torch_class.removeprefix("Schedule") if schedule else "",
        "settings": str(folder / runner.settings),
        "latency_s": ((profile.latency_s + travel) * stretch).tolist(),
        "slack_s": runner.slack * usual_action_s(profile, written) * stretch,
        "steps": steps,
        "ranks": profile.ranks,
        "meeting": str(folder / "meeting"),
        "result": str(folder / "result.json"),
    }


@dataclass(frozen=True)
class How:
    """How a plan is carried out."""

    steps: int = 3
    """After the first."""
    stretch: float | None = None
    """Times as long; None makes a usual action long enough for this machine."""
    model: str = ""
    """`MODULE:FACTORY` of the user's model, whose layers are run instead of emulated ones."""


def check_plan(written: Written, how: How, schedule: str = "") -> Checked:
    """Carry a plan out by its engine; ``schedule`` is the name of a standard one, where its order is no file.

    Raises:
        CommandError: where the engine is not installed, or the job fails.
    """
    profile, plan, steps = written.profile, written.plan, how.steps
    runner = RUNNERS["model" if how.model else written.engine]
    usual = usual_action_s(profile, written)
    stretch = how.stretch or max(1.0, runner.action_s / usual if usual > 0 else 1.0)
    predicted = make_plan(profile, plan.stages, plan.program, ENGINES[runner.model], "")
    with tempfile.TemporaryDirectory(prefix="scalana-verify-") as name:
        folder = Path(name)
        job = job_of(written, stretch, steps, folder, schedule) | {"model": how.model}
        for file in {ORDER, f"{written.engine}.csv"}:  # by the name in the settings
            (folder / file).write_text(write_torch_csv(plan.program), encoding="utf-8")
        if runner.settings:
            (folder / runner.settings).write_text("\n".join(written.settings) + "\n", encoding="utf-8")
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        patience = runner.patience_s + (steps + 1) * 5 * predicted.step_s * stretch
        run_job(runner, folder / "job.json", patience)
        try:
            ranks = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise CommandError("the job that runs the plan ended without a result") from error
    _compare_parts(plan.stages, [rank["parts"] for rank in ranks], written.engine)
    windows = np.array([rank["windows"] for rank in ranks])[:, 1:]
    took = windows[:, :, 1].max(axis=0) - windows[:, :, 0].min(axis=0)
    checked = Checked(
        written.engine,
        predicted.step_s,
        float(np.median(took)) / stretch,
        tuple((took / stretch).tolist()),
        stretch,
        sum(int(rank["late"]) for rank in ranks) if runner.slack > 0.5 else 0,
    )
    if not how.model:
        return checked
    here_s = replayed_s(written, [row for rank in ranks for row in rank["actions"]])
    return replace(checked, predicted_s=here_s, planned_s=predicted.step_s)


def replayed_s(written: Written, actions: list[tuple[str, int, float]]) -> float:
    """What a step would take by the medians of what actions took: kind, stage and seconds of each."""
    program = written.plan.program
    costs = np.zeros((len(Kind), program.stages))
    taken: dict[tuple[Kind, int], list[float]] = {}
    for kind, stage, seconds in actions:
        taken.setdefault((Kind[kind], stage), []).append(seconds)
    for at, every in taken.items():
        costs[at] = np.median(every)
    operations = lower(program, variant(ENGINES["torch"], program))
    return replay(operations, Setting.plain(operations, spread_costs(program, costs))).makespan_s


def _compare_parts(stages: Stages, parts: list[list[list[int]]], engine: str) -> None:
    """Raise a :class:`CommandError` where an engine gave a rank other layers than the plan does."""
    cut = stages.cut.tolist()
    for rank, found in enumerate(parts):
        planned = [list(range(cut[s], cut[s + 1])) for s in range(stages.count) if stages.rank[s] == rank]
        if planned != found:
            raise CommandError(f"{engine} gave rank {rank} other layers than the plan: {found} instead of {planned}")


def run_job(runner: Runner, job: Path, patience_s: float) -> None:
    """Run a job, and end all its ranks where it takes too long.

    Raises:
        CommandError: it cannot start, fails, or takes longer.
    """
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    if runner.settings:
        env["CUDA_VISIBLE_DEVICES"] = ""  # engines take a GPU where they find one
    log = job.parent / "job.log"
    command = [sys.executable, "-m", f"scalana.verify.jobs.{runner.module}", str(job)]
    try:
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=env, start_new_session=True)
    except OSError as error:
        raise CommandError(f"the job that runs the plan cannot start: {error}") from error
    try:
        code = process.wait(patience_s)
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"the job that runs the plan did not finish within {patience_s:.0f} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code:
        raise CommandError(told(log.read_text(encoding="utf-8", errors="replace"), runner))


def told(said: str, runner: Runner) -> str:
    """Why a job failed, from what it wrote."""
    for package, install in (("torch", "torch"), (runner.package, runner.install)):
        if f"No module named '{package}'" in said:
            return f"verifying this plan needs {package}: pip install {install}"
    lines = [line for line in said.splitlines() if line.strip()]
    return "the job that runs the plan failed:\n" + "\n".join(lines[-15:])
