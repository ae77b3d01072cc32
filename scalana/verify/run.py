"""Have a plan carried out with emulated costs, and compare what it takes with the prediction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scalana.detectors.pipeline.lowering import ENGINES
from scalana.detectors.pipeline.plans.assignment import stage_costs_of
from scalana.detectors.pipeline.plans.document import Written
from scalana.detectors.pipeline.plans.plan import make_plan
from scalana.detectors.pipeline.plans.profile import LayerProfile
from scalana.detectors.pipeline.torch_csv import write_torch_csv
from scalana.errors import CommandError

ACTION_S = 0.02
"""What a usual action is stretched to: far above what a message on this machine takes."""
SLACK = 0.75
"""Of a usual action: lateness below this is taken back."""
PATIENCE_S = 240.0
"""For starting and ending processes."""


@dataclass(frozen=True)
class Checked:
    """What a plan took."""

    predicted_s: float
    """In the profile's time, as :attr:`measured_s`."""
    measured_s: float
    """The median of the steps."""
    steps_s: tuple[float, ...]
    stretch: float
    """Times that costs were longer than in the profile."""
    late: int
    """Actions of all ranks that were so late that it counts as work: the machine was too busy."""

    @property
    def error(self) -> float:
        """Of the prediction, over what was measured."""
        return self.predicted_s / self.measured_s - 1


def usual_action_s(profile: LayerProfile, written: Written) -> float:
    """Seconds of an action in the middle of the plan's."""
    costs = stage_costs_of(profile, written.plan.stages, ENGINES["ideal"], host=False)
    program = written.plan.program
    return float(np.median(costs.seconds[program.kind, program.stage]))


def job_of(written: Written, stretch: float, steps: int, folder: Path) -> dict[str, Any]:
    """What the job is told."""
    profile, plan = written.profile, written.plan
    costs = stage_costs_of(profile, plan.stages, ENGINES["ideal"], host=False)
    # The host's time is part of what actions take: on this machine it is not what it was on the other.
    seconds = (costs.seconds + profile.host_s) * stretch
    travel = float(profile.output.mean()) / profile.bytes_per_s
    return {
        "rank_of_stage": plan.stages.rank.tolist(),
        "costs": seconds.T.tolist(),
        "microbatches": plan.program.microbatches,
        "order": str(folder / "plan.csv"),
        "latency_s": ((profile.latency_s + travel) * stretch).tolist(),
        "slack_s": SLACK * usual_action_s(profile, written) * stretch,
        "steps": steps,
        "ranks": profile.ranks,
        "meeting": str(folder / "meeting"),
        "result": str(folder / "result.json"),
    }


def check_plan(written: Written, steps: int = 3, stretch: float | None = None) -> Checked:
    """Carry a plan out on torch's runtime.

    Raises:
        CommandError: where torch is not installed, or the job fails.
    """
    profile, plan = written.profile, written.plan
    usual = usual_action_s(profile, written)
    stretch = max(1.0, ACTION_S / usual) if stretch is None and usual > 0 else stretch or 1.0
    predicted = make_plan(profile, plan.stages, plan.program, ENGINES["torch"], "")
    with tempfile.TemporaryDirectory(prefix="scalana-verify-") as name:
        folder = Path(name)
        job = job_of(written, stretch, steps, folder)
        (folder / "plan.csv").write_text(write_torch_csv(plan.program), encoding="utf-8")
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        patience = PATIENCE_S + (steps + 1) * 5 * predicted.step_s * stretch
        _run(profile.ranks, folder / "job.json", patience)
        try:
            ranks = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise CommandError("the job that carries the plan out ended without a result") from error
    windows = np.array([rank["windows"] for rank in ranks])[:, 1:]
    took = windows[:, :, 1].max(axis=0) - windows[:, :, 0].min(axis=0)
    return Checked(
        predicted.step_s,
        float(np.median(took)) / stretch,
        tuple((took / stretch).tolist()),
        stretch,
        sum(int(rank["late"]) for rank in ranks),
    )


def _run(ranks: int, job: Path, patience_s: float) -> None:
    """Start all ranks, and end them where one fails or it takes too long."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    logs = [job.parent / f"rank-{rank}.log" for rank in range(ranks)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank, log in enumerate(logs):
            command = [sys.executable, "-m", "scalana.verify.job", str(job), str(rank)]
            with log.open("wb") as file:
                processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=env))
        until = time.monotonic() + patience_s
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break
            if time.monotonic() > until:
                raise CommandError(f"the job that carries the plan out was not done after {patience_s:.0f} s")
            time.sleep(0.05)
    except OSError as error:
        raise CommandError(f"the job that carries the plan out cannot be started: {error}") from error
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    failed = [log for log, process in zip(logs, processes, strict=True) if process.returncode > 0]
    if failed:
        said = failed[0].read_text(encoding="utf-8", errors="replace")
        if "No module named 'torch'" in said:
            raise CommandError("verifying a plan needs PyTorch: pip install torch")
        lines = [line for line in said.splitlines() if line.strip()]
        raise CommandError("the job that carries the plan out failed:\n" + "\n".join(lines[-15:]))
