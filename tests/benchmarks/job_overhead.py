"""What recording does to a whole job: its slow-down, bytes per rank and hour, and the wait for the report.

Run: ``python tests/benchmarks/job_overhead.py [--rounds N] [--steps N] [--rates HZ ...] [--part slow-down|report]``.

The job is a DDP training under torchrun with gloo, one rank per core, half of each step in Python (the input) and half
in torch. It takes turns of some steps without recording, with nothing changed (a check of the method) and at each rate,
in random order. What is compared are the wall seconds of a turn up to a barrier, and the CPU seconds of its ranks (user
and system, the sampler's and the writer's included). The table shows the median of the ratios of neighbours in time,
with a confidence interval of the median.

The turns are those of one process, in which recording is taken out and put back (:class:`Recording`): two processes of
the same program differ by several percent of CPU time, by where their memory happens to lie, all through a run.

The time to the report is that of the process ``scalana report`` on the folder of a recorded job, and on a synthetic run
of 8 ranks and a minute; with an empty cache of compiled code first, then with a filled one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

REST_HZ = 10
"""Rate of a sampler that is to do next to nothing."""
WARM_STEPS = 5
"""Steps before a turn: caches, and the sampler's last sleep at another rate."""
QUANTILE = 0.25
RESAMPLES = 500


class Recording:
    """Takes all recording of torch out of this process, and puts it back."""

    def __init__(self, owners: list[object]) -> None:
        self.owners = owners
        self.plain = [dict(vars(owner)) for owner in owners]
        self.on = True

    def installed(self) -> None:
        """Recording has been set up; what it replaced is known from here on."""
        from scalana.runtime import session
        from scalana.runtime.torch import comm as torch_comm
        from scalana.runtime.torch import native as torch_native

        self.core, self.torch_comm, self.torch_native = session.core, torch_comm, torch_native
        self.replaced = [
            (owner, name, before[name], value)
            for owner, before in zip(self.owners, self.plain, strict=True)
            for name, value in vars(owner).items()
            if name in before and before[name] is not value and callable(value)
        ]
        if self.core is None or not self.replaced:
            raise SystemExit("the job is not recorded")

    def set(self, rate_hz: int) -> None:
        """Record at this rate from now on; 0: not at all."""
        import torch

        if bool(rate_hz) != self.on:
            self.on = bool(rate_hz)
            for owner, name, plain, recorded in self.replaced:
                setattr(owner, name, recorded if rate_hz else plain)
            self.torch_native.detach()
            for library in self.torch_comm._library:
                library._destroy()
            self.torch_comm._library.clear()
            if rate_hz:
                self.torch_comm._register_kernels(torch)
        self.core.set_rate(rate_hz or REST_HZ)


def child(rates: list[int], rounds: int, steps: int, result: str) -> None:
    """One rank: train, and write ``<result>-<rank>.json``: ``[rounds][rates][steps]`` wall and CPU seconds, and bytes.

    Bytes are those of the whole turn, ``[rounds][rates]``.
    """
    import torch
    import torch.distributed as dist
    import torch.nn as nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    recording = Recording([dist, c10d, c10d.Work, *c10d.Work.__subclasses__(), torch._C.Future, dist.Reducer])
    dist.init_process_group("gloo")
    layers = [layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 8)), bucket_cap_mb=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def batch(step: int) -> torch.Tensor:
        rows = []
        for row in range(64):
            text = " ".join(str(step * row % (1 + column)) for column in range(128))
            rows.append([float(len(word)) for word in text.split()] * 4)
        return torch.tensor(rows)

    def train(count: int) -> list[tuple[float, float]]:
        clocks = [(time.perf_counter(), time.process_time())]
        for step in range(count):
            optimizer.zero_grad()
            loss = model(batch(step)).square().mean()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach())
            clocks.append((time.perf_counter(), time.process_time()))
        return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(clocks)]

    train(20)
    recording.installed()
    choose = random.Random(0)  # the same order on all ranks
    seconds: list[list[list[tuple[float, float]]]] = [[[] for _ in rates] for _ in range(rounds)]
    size = [[0] * len(rates) for _ in range(rounds)]
    for number in range(rounds):
        for index in choose.sample(range(len(rates)), len(rates)):
            recording.set(rates[index])
            train(WARM_STEPS)
            recording.core.flush()
            dist.barrier()
            before = recorded_bytes()
            seconds[number][index] = train(steps)
            recording.core.flush()
            size[number][index] = recorded_bytes() - before
    Path(f"{result}-{dist.get_rank()}.json").write_text(json.dumps([seconds, size]), encoding="utf-8")
    dist.destroy_process_group()


def recorded_bytes() -> int:
    """Size of this rank's record so far."""
    from scalana.runtime import session

    return sum(path.stat().st_size for path in Path(session.folder(), "records").glob(f"*-{os.getpid()}-*.rec"))


def slow_down(ranks: int, rates: list[int], rounds: int, steps: int, folder: Path) -> None:
    """Print the ratios; the record of the job is left in ``folder``."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_")}
    environment |= {"OMP_NUM_THREADS": "1", "SCALANA_RUN_DIR": str(folder)}
    environment["PYTHONPATH"] = str(ROOT / "runtime" / "bootstrap")
    folder.mkdir()
    result = folder / "rank"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", __file__]
    command += ["--child", str(result), "--rounds", str(rounds), "--steps", str(steps)]
    command += ["--rates", "0", "0", *map(str, rates)]
    subprocess.run(command, env=environment, check=True)
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("rank-*.json"))]
    if len(parts) != ranks:
        raise SystemExit("not every rank was measured")
    seconds = np.array([part[0] for part in parts])  # [ranks, rounds, rates, steps, wall or CPU]
    sizes = np.array([part[1] for part in parts])  # [ranks, rounds, rates]
    alone = np.quantile(seconds[:, :, 0, :, 0], [0.05, 0.5, 0.95]) * 1e3
    print(
        f"{ranks} ranks on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {rounds} turns of {steps} steps; "
        f"one step without recording takes {alone[1]:.1f} ms ({alone[0]:.1f} to {alone[2]:.1f})"
    )
    for index, name in enumerate(["without", *(f"{rate} Hz" for rate in rates)], start=1):
        for part, what in enumerate(("wall", "CPU")):
            middle, low, high = ratio(seconds[..., index, :, part], seconds[..., 0, :, part])
            print(f"{name:>7} to without, {what:4}: {middle:.4f} [{low:.4f}, {high:.4f}]")
        if index > 1:
            hourly = sizes[..., index].mean() / seconds[..., index, :, 0].sum(axis=-1).mean() * 3600
            print(f"{name:>7}, record: {hourly / 2**20:.1f} MiB per rank and hour")


def ratio(some: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Ratio of what an undisturbed step takes, and a 95 % interval, by resampling of rounds.

    An undisturbed step is the lower quartile of all (``[ranks, rounds, steps]``): whatever else the machine does only
    makes steps longer, while the sampler comes by several times in each of them.
    """
    choose = np.random.default_rng(0)
    rounds = some.shape[1]
    ratios = []
    for _ in range(RESAMPLES):
        these = choose.integers(0, rounds, rounds)
        ratios.append(np.quantile(some[:, these], QUANTILE) / np.quantile(others[:, these], QUANTILE))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(np.quantile(some, QUANTILE) / np.quantile(others, QUANTILE)), float(low), float(high)


def time_to_report(name: str, folder: Path) -> None:
    """Print how long ``scalana report`` takes on a run, with an empty and with a filled cache of compiled code."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
        # The command as `scalana run` goes on to it when the job has ended.
        command = [sys.executable, "-m", "scalana", "report", str(folder)]
        seconds = []
        for _ in range(4):
            start = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            seconds.append(time.perf_counter() - start)
            if done.returncode or not done.stdout.strip():
                raise SystemExit(f"no report on {folder}: {done.stderr[-2000:]}")
    size = sum(path.stat().st_size for path in folder.rglob("*.rec")) / 2**20
    warm = statistics.median(seconds[1:])
    print(f"report on {name} ({size:.1f} MiB): {seconds[0]:.1f} s with an empty cache, {warm:.1f} s with a filled one")


def synthetic(folder: Path) -> None:
    """A run of 8 ranks and about a minute, sampled at 200 Hz."""
    from tests.tools.generate_run import write_run
    from tests.tools.job_model import Model

    write_run(folder, Model(8, 740))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=120, help="turns at each rate (default: 120)")
    parser.add_argument(
        "--steps", type=int, default=12, help="steps in a turn (default: 12, about a third of a second)"
    )
    parser.add_argument("--ranks", type=int, default=os.cpu_count(), help="default: one per core")
    parser.add_argument("--rates", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--part", choices=("slow-down", "report"), help="only this")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.rates, options.rounds, options.steps, options.child)
        return
    with tempfile.TemporaryDirectory() as name:
        recorded, generated = Path(name, "job"), Path(name, "synthetic")
        few = options.part == "report"
        slow_down(options.ranks, options.rates, 5 if few else options.rounds, options.steps, recorded)
        if options.part != "slow-down":
            time_to_report(f"{options.ranks} ranks, DDP training", recorded)
            synthetic(generated)
            time_to_report("8 ranks, 1 min, synthetic", generated)


if __name__ == "__main__":
    main()
