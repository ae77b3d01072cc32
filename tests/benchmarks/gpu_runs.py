"""Records jobs on a GPU, one after the other, and analyses them together, as analysing takes host time alone."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 90.0
"""Of one job."""
PROGRAMS = ROOT / "tests" / "runtime" / "programs"


@dataclass(frozen=True)
class Job:
    """A program on a GPU, and what it finds in its environment."""

    program: str
    arguments: tuple[str, ...]
    ranks: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


def command(job: Job) -> list[str]:
    """How a job is started."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.ranks)]
    return [sys.executable, *(launcher if job.ranks > 1 else []), str(PROGRAMS / job.program), *job.arguments]


def step_ms(job: Job, run: Path | None) -> float:
    """Milliseconds of a step, as rank 0 prints it, of a job that is recorded in a folder, or not at all."""
    recorder = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(run), "--"] if run else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **job.environment}
    process = subprocess.Popen(
        [*recorder, *command(job)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    found = re.search(r"^(?:rank 0: )?([0-9.]+) ms a step", output, re.MULTILINE)
    if process.returncode or not found:
        sys.exit(f"{' '.join(job.arguments)} ended with {process.returncode}:\n{output[-500:]}{errors[-2000:]}")
    return float(found[1])


def analysed(run: Path) -> dict[str, Any]:
    """The JSON of a run's report."""
    import scalana

    found: dict[str, Any] = json.loads(scalana.analyze(run).to_json())
    return found


def all_analysed(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Of several runs at once: the first one alone, as it compiles for the others."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0)), mp_context=context) as pool:
        first = [pool.submit(analysed, run).result() for run in runs[:1]]
        return first + list(pool.map(analysed, runs[1:]))


def main(document: str | None, names: Sequence[str], measure: Callable[[Sequence[str], Path], Any]) -> None:
    """The command line of a benchmark: which cases, and where the run folders are to stay."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=(*names, []), metavar="CASE", help=", ".join(names))
    kept = os.environ.get("GPU_RUNS")
    parser.add_argument("--keep", metavar="FOLDER", default=kept, help="keep the run folders there (GPU_RUNS=FOLDER)")
    options = parser.parse_args()
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(options.names or names, Path(folder)), indent=2))
