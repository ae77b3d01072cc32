"""What recording does to a whole job: its slow-down, bytes per rank and hour, and the wait for the report.

Run: ``python tests/benchmarks/job_overhead.py [--pairs N] [--seconds S] [--rates HZ ...] [--part slow-down|report]``.

The job is a DDP training under torchrun with gloo, one rank per core, half of each step in Python (the input) and half
in torch. Jobs without and with recording take turns, at every rate, and what is compared are the seconds of the same
number of steps, measured inside the job between two barriers, and the CPU seconds of the rank (user and system, its
sampler's included). The table shows the median of the ratios of neighbours in time, with a confidence interval of the
median by order statistics, which assumes nothing about how they are distributed.

The time to the report is that of the process ``scalana report`` on the folder of a recorded job, and on a synthetic run
of 8 ranks and a minute; with an empty cache of compiled code first, then with a filled one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

CONFIDENCE = 0.95
STEP_MS = 25


def child(steps: int, result: str) -> None:
    """One rank: time ``steps`` steps and write ``<result>-<rank>.json``."""
    import torch
    import torch.distributed as dist
    import torch.nn as nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
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

    def train(count: int) -> None:
        for step in range(count):
            optimizer.zero_grad()
            loss = model(batch(step)).square().mean()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach())

    recorder = sys.modules.get("scalana.runtime.recorder")
    train(20)
    dist.barrier()
    bytes_before = recorded_bytes(recorder)
    wall, cpu = time.perf_counter(), time.process_time()
    train(steps)
    dist.barrier()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    out = {"wall_s": wall, "cpu_s": cpu, "bytes": recorded_bytes(recorder) - bytes_before}
    Path(f"{result}-{dist.get_rank()}.json").write_text(json.dumps(out), encoding="utf-8")
    dist.destroy_process_group()


def recorded_bytes(recorder) -> int:  # type: ignore[no-untyped-def]
    """Size of this rank's record so far."""
    if recorder is None or not recorder.active():
        return 0
    recorder.core.flush()
    return sum(path.stat().st_size for path in Path(recorder.folder(), "records").glob(f"*-{os.getpid()}-*.rec"))


def job(ranks: int, steps: int, rate_hz: int, folder: Path) -> dict[str, float]:
    """Run a job, recorded into ``folder`` unless the rate is 0. Seconds of the slowest rank, CPU seconds of all."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_")}
    environment["OMP_NUM_THREADS"] = "1"
    if rate_hz:
        environment["SCALANA_RUN_DIR"] = str(folder)
        environment["SCALANA_RATE_HZ"] = str(rate_hz)
        environment["PYTHONPATH"] = str(ROOT / "runtime" / "bootstrap")
    folder.mkdir()
    result = folder / "rank"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [__file__, "--child", str(result), "--steps", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("rank-*.json")]
    if len(parts) != ranks or (rate_hz and not all(part["bytes"] for part in parts)):
        raise SystemExit("not every rank was measured and recorded")
    return {
        "wall_s": max(part["wall_s"] for part in parts),
        "cpu_s": sum(part["cpu_s"] for part in parts),
        "bytes_per_s": sum(part["bytes"] / part["wall_s"] for part in parts) / ranks,
    }


def interval(values: list[float]) -> tuple[float, float, float]:
    """Bounds of a confidence interval of the median and the confidence that it has (Hahn and Meeker, 1991, 5.2).

    The narrowest pair of order statistics with at least ``CONFIDENCE``; of few values the least and the greatest.
    """
    ordered, count = sorted(values), len(values)
    best = (ordered[0], ordered[-1], 1 - 0.5 ** (count - 1))
    for cut in range(1, (count + 1) // 2):
        outside = 2 * sum(math.comb(count, below) for below in range(cut + 1)) / 2**count
        if 1 - outside < CONFIDENCE:
            break
        best = (ordered[cut], ordered[-1 - cut], 1 - outside)
    return best


def slow_down(ranks: int, rates: list[int], pairs: int, seconds: float, keep: Path) -> Path:
    """Print the ratios; returns the folder of a recorded job."""
    steps = max(20, round(seconds * 1000 / STEP_MS))
    runs: dict[int, list[dict[str, float]]] = {rate: [] for rate in (0, *rates)}
    for number in range(pairs):
        # The order turns, so that what slowly changes on the machine favours nobody.
        order = [0, *rates] if number % 2 == 0 else [*rates, 0]
        for rate in order:
            done = job(ranks, steps, rate, keep / f"{rate}-{number}")
            runs[rate].append(done)
            what = f"{rate} Hz" if rate else "plain"
            print(
                f"  {number}: {what:8} {done['wall_s']:7.3f} s, {done['cpu_s']:7.3f} CPU s", file=sys.stderr, flush=True
            )
    plain = runs[0]
    alone = [run["wall_s"] for run in plain]
    print(
        f"{ranks} ranks on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; without recording {steps} steps take "
        f"{statistics.median(alone):.2f} s ({min(alone):.2f} to {max(alone):.2f}); {pairs} pairs"
    )
    for rate in rates:
        for name, key in (("wall", "wall_s"), ("CPU", "cpu_s")):
            ratios = [with_it[key] / without[key] for with_it, without in zip(runs[rate], plain, strict=True)]
            low, high, confidence = interval(ratios)
            print(
                f"{rate:5} Hz, {name:4} with / without: median {statistics.median(ratios):.4f} "
                f"[{low:.4f}, {high:.4f}] at {confidence:.1%}"
            )
        hourly = statistics.median(run["bytes_per_s"] for run in runs[rate]) * 3600
        print(f"{rate:5} Hz, record: {hourly / 2**20:.1f} MiB per rank and hour")
    return keep / f"{rates[0]}-{pairs - 1}"


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
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of the measured loop (default: 4)")
    parser.add_argument("--ranks", type=int, default=os.cpu_count(), help="default: one per core")
    parser.add_argument("--rates", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--part", choices=("slow-down", "report"), help="only this")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.steps, options.child)
        return
    with tempfile.TemporaryDirectory() as name:
        keep = Path(name)
        if options.part == "report":
            job(options.ranks, round(options.seconds * 1000 / STEP_MS), options.rates[0], keep / "job")
            recorded = keep / "job"
        else:
            recorded = slow_down(options.ranks, options.rates, options.pairs, options.seconds, keep)
        if options.part != "slow-down":
            time_to_report(f"{options.ranks} ranks, {options.seconds:.0f} s", recorded)
            synthetic(keep / "synthetic")
            time_to_report("8 ranks, 1 min, synthetic", keep / "synthetic")


if __name__ == "__main__":
    main()
