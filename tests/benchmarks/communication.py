"""Communication that costs time, against programs that communicate otherwise.

    python -m tests.benchmarks.communication [--cause accumulate] [--mpi FOLDER] [--balanced]

Each program is recorded, and then run unrecorded with steps of both ways in turn. Prints what was measured, as JSON:
whether the first finding names the line and what an expert would change, and by how much the step that it predicts, as
a part of the measured one, is off from what the change brings, in percent of the step before it. ``--balanced`` prints
how many reports of programs without a cause have a finding.

The error of programs of MPI is not summed up: with calls of microseconds, it varies from run to run on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalana import api
from scalana.detectors.finding import Finding
from scalana.detectors.limits.advice import ADVICE_COMBINE, ADVICE_SPARED
from tests.benchmarks.mpi_overhead import mpirun

ROOT = Path(__file__).resolve().parents[2]
TORCH = ROOT / "tests" / "jobs" / "programs" / "communication.py"
MPI = ROOT / "tests" / "benchmarks" / "small_calls.c"
BALANCED = 6


@dataclass(frozen=True)
class Cause:
    """A way to communicate, and what is to be changed."""

    advice: str | tuple[str, ...]
    """With which that of the finding begins, or one of several."""
    ranks: tuple[int, ...] = (0, 1)
    """That it names."""
    is_mpi: bool = False


CAUSES = {
    "accumulate": Cause(ADVICE_SPARED["reduced-again"]),
    "average": Cause(ADVICE_COMBINE["calls"]),
    "buckets": Cause(ADVICE_COMBINE["buckets"]),
    "buffers": Cause(ADVICE_SPARED["buffers"]),
    "metrics": Cause(ADVICE_SPARED["single-numbers"]),
    "objects": Cause("This pickles objects and unpickles them on arrival: send less, or send tensors.", ranks=(0,)),
    "allreduce": Cause((ADVICE_SPARED["single-numbers"], ADVICE_COMBINE["calls"]), is_mpi=True),
    "halo": Cause(ADVICE_COMBINE["messages"], is_mpi=True),
}


def job(cause: str, way: str, is_mpi: bool, mpi: Path, work: Path) -> list[str]:
    """The command of a program that goes one way."""
    if not is_mpi:
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        return [sys.executable, *launch, str(TORCH), cause, way]
    program = work / "small_calls"
    if not program.exists():
        subprocess.run([str(mpi / "mpicc"), "-O2", "-g", str(MPI), "-o", str(program)], check=True)
    return [*mpirun(mpi, 2), str(program), cause, way]


def run(words: list[str], folder: Path | None = None) -> list[float]:
    """Run a program, recorded if a folder is given; returns the seconds of steps that it prints."""
    record = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--"] if folder else []
    done = subprocess.run([*record, *words], check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()[-2:]]


def predicted_part(finding: Finding) -> float | None:
    """The step with the change, as a part of the step as it is; None where only a part of the change is predicted."""
    evidence, limit = finding.evidence, finding.evidence.step_limit
    if limit is None:
        return None
    step_s = limit.step_s or limit.run_s or 1.0
    if evidence.transfers is not None:
        return evidence.transfers.in_one_call_step_s / step_s
    return limit.without_step_s / step_s


def measured(name: str, mpi: Path, work: Path) -> dict[str, Any]:
    """What is found of a cause, and what the change brings."""
    cause, load = CAUSES[name], os.getloadavg()[0]
    run(job(name, "wrong", cause.is_mpi, mpi, work), work / name)
    report = api.analyze(str(work / name))
    source = MPI if cause.is_mpi else TORCH
    lines = source.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if name in text.partition("<- ")[2].split())
    wrong_s, right_s = run(job(name, "both", cause.is_mpi, mpi, work))
    first = report.findings[0] if report.findings else None
    part = predicted_part(first) if first is not None else None
    return {
        "right": first is not None
        and (first.line, tuple(first.ranks)) == (line, cause.ranks)
        and first.advice.startswith(cause.advice),
        "part": round(100 * right_s / wrong_s, 1),
        "predicted": round(100 * part, 1) if part is not None else None,
        "error": round(100 * abs(part - right_s / wrong_s), 1) if part is not None else None,
        "load": round(load, 1),
        "found": [f"{one.kind} of {one.ranks} at {one.line}: {one.advice[:50]}" for one in report.findings],
    }


def balanced(mpi: Path, work: Path) -> dict[str, Any]:
    """How many reports of programs without a cause, of torch and MPI, have a finding."""
    found = []
    for number in range(BALANCED):
        folder = work / f"balanced-{number}"
        run(job("nothing", "wrong", number % 2 == 1, mpi, work), folder)
        found.append([f"{one.kind} at {one.line}" for one in api.analyze(str(folder)).findings])
    return {"runs": BALANCED, "with_findings": sum(map(bool, found)), "found": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cause", choices=[*CAUSES], action="append", help="only these (default: all)")
    parser.add_argument("--mpi", type=Path, default=ROOT / "build" / "mpi" / "openmpi" / "bin", help="its programs")
    parser.add_argument("--balanced", action="store_true", help="a program without a cause instead")
    parser.add_argument("--keep", type=Path, help="folder for the records (default: they are deleted)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = options.keep or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if options.balanced:
            print(json.dumps(balanced(options.mpi, work), indent=1))
            return
        result = {}
        for name in options.cause or [*CAUSES]:
            result[name] = measured(name, options.mpi, work)
            print(f"{name}: {result[name]}", file=sys.stderr, flush=True)
    known = [one["error"] for name, one in result.items() if not CAUSES[name].is_mpi]
    errors = [float(error) for error in known if error is not None]
    summary = {
        "right": sum(bool(one["right"]) for one in result.values()),
        "error_largest": max(errors, default=None),
    }
    print(json.dumps({"summary": summary, **result}, indent=1))


if __name__ == "__main__":
    main()
