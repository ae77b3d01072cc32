"""Workloads replayed, as a simulation and by real processes, compared with what was recorded: tables.

Run: python tests/benchmarks/rl_replay.py [speed] [loop] [trl] [verl]

``speed`` simulates 8,192 trajectories on a thousand replicas. ``loop`` records a loop of four processes that sleep
where a GPU would compute (`tests/tools/rl_job.py`), and replays it; ``trl`` does so with TRL's GRPO on two processes
(`make rl`), and ``verl`` with GRPO of verl on two trainers and two replicas (`make verl`); both need a calm machine.
Costs are fitted to the first half of the steps, and the second half is compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana.verify.steps import play  # noqa: E402
from scalana.workload.costs import named  # noqa: E402
from scalana.workload.draw import Draw, draw  # noqa: E402
from scalana.workload.fidelity import accuracy, generative, phase_accuracy, replayability  # noqa: E402
from scalana.workload.profile import profile_of  # noqa: E402
from scalana.workload.replay import Setting, replay  # noqa: E402
from scalana.workload.sources import read_workload  # noqa: E402
from scalana.workload.step_costs import fit_steps  # noqa: E402
from scalana.workload.trajectories import Workload  # noqa: E402
from tests.detectors.rl import jobs  # noqa: E402
from tests.tools import verl_job  # noqa: E402
from tests.tools.fork_server import DIRECTLY  # noqa: E402
from tests.workload.examples import with_groups  # noqa: E402

STEPS, RANKS, ANSWERS, DRAWS = 8, 4, 8, 100
TRL = ROOT / "build" / "rl" / "bin" / "python"
PROGRAM = ROOT / "tests" / "detectors" / "rl" / "programs"
TRL_STEPS = 12
VERL_STEPS = 8


def speed() -> None:
    """A simulation on a thousand replicas, the second of two, as machine code is made in the first."""
    workload = draw(profile_of(with_groups(1, 512, 16, 0.5, 0.5)), Draw(1, 512, 16))
    setting = Setting("fifo", 1000, named("7b-tp2"))
    for _ in range(2):
        begin = time.perf_counter()
        replay(workload, setting)
        seconds = time.perf_counter() - begin
    print(f"{len(workload)} trajectories on {setting.replicas} replicas: {seconds:.3f} s")


def loop(folder: Path) -> Workload:
    """A loop whose lengths, scoring and training differ from step to step."""
    random = np.random.default_rng(3)
    jobs.STEPS = STEPS
    lengths = random.lognormal(4.6, 0.5, (STEPS, RANKS, ANSWERS)).round().astype(int)
    tokens = random.integers(1500, 3000, (STEPS, RANKS))
    verifier = random.uniform(0.05, 0.2, (STEPS, RANKS))
    plan = jobs.plan(
        lengths=lambda step, rank: lengths[step, rank].tolist(),
        groups=lambda step, rank: [2 * rank + number // 4 for number in range(ANSWERS)],
        train_tokens=lambda step, rank: int(tokens[step, rank]),
        verifier_s=lambda step, rank: float(verifier[step, rank]),
        log_prob_s=lambda step, rank: 0.1,
    )
    return read_workload([str(jobs.record({"loop": plan}, folder)["loop"].folder)])


def trl(folder: Path) -> Workload:
    """GRPO of TRL, in which the answers of one process are long."""
    program = f"import sys; sys.path.insert(0, {str(PROGRAM)!r}); import grpo; grpo.STEPS = {TRL_STEPS}; "
    main = folder / "train.py"
    main.write_text(program + "grpo.main(*sys.argv[1:])\n")
    record = folder / "run"
    words = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    job = [str(TRL), str(DIRECTLY), "2", str(main), str(folder / "output"), "tail"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([*words, *job], cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    return read_workload([str(record)])


def verl(folder: Path) -> Workload:
    """GRPO of verl, in which every second step has long answers, and a token takes 40 ms."""
    verl_job.record(folder, VERL_STEPS, "long token=0.04")
    return read_workload([str(folder / "run")])


def compare(name: str, workload: Workload, folder: Path) -> None:
    """A row of each table."""
    found = replayability(workload)
    least = min(found.phases.items(), key=lambda one: one[1])
    print(
        f"| {name}, simulated | {100 * found.total:.1f} % | {100 * found.steps:.1f} % | "
        f"{100 * least[1]:.1f} % ({least[0]}) |"
    )
    assert workload.times is not None and workload.decode is not None
    setting = Setting("recorded", workload.times.ranks, workload.decode, fit_steps(workload))
    played = play(workload, replay(workload, setting), str(folder / "played")).times
    assert played is not None
    phases = phase_accuracy(workload.times, {key: each.max(axis=0) for key, each in played.phases.items()})
    least = min(phases.items(), key=lambda one: one[1])
    total = accuracy(played.wall_s.sum(keepdims=True), workload.times.wall_s.sum(keepdims=True))
    steps = accuracy(played.wall_s, workload.times.wall_s)
    print(f"| {name}, played | {100 * total:.1f} % | {100 * steps:.1f} % | {100 * least[1]:.1f} % ({least[0]}) |")
    drawn = generative(workload, setting, DRAWS)
    low, high = drawn.interval_s
    print(
        f"| {name}, drawn | {100 * drawn.accuracy:.1f} % | | recorded {drawn.real_s:.2f} s, "
        f"90 % of draws {low:.2f} to {high:.2f} s |"
    )


def main(names: list[str]) -> None:
    """What was asked for, or all."""
    if not names or "speed" in names:
        speed()
    print("| replay | sum of the steps | a step | least of the phases |\n|---|---|---|---|")
    for name, record in (("loop", loop), ("trl", trl), ("verl", verl)):
        if name in names or (not names and name != "verl"):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "jobs").mkdir()
                compare(name, record(Path(folder) / "jobs"), Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
