"""Predictions of sizes that were not fitted, of programs whose times are made: their errors, as JSON.

Run: python -m tests.benchmarks.scaling_predictions simulated|modelled

``simulated``: programs with a fault each (`tests/detectors/runs/test_scaling.py`), fitted to 2, 4, 8 and 16 ranks and
compared on 64, without noise and with. ``modelled``: the job of `tests/tools/job_model.py`, fitted to 64, 128, 256, 512
and 1,024 ranks and compared on 4,096 (two minutes of CPU time).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import scalana
from tests.detectors.runs import test_scaling as programs
from tests.tools.generate_run import write_run
from tests.tools.job_model import Model

FITTED, FAR = (64, 128, 256, 512, 1024), 4096


def simulated() -> dict[str, float]:
    """The largest error of all programs, without noise and with."""
    worst = {}
    for name, noise in (("exact", programs.EXACT), ("noisy", programs.NOISY)):
        errors = []
        for fault, (_, _, scaling, *_) in programs.FAULTS.items():
            expected = programs.run(fault, programs.SIZES, at=64, **noise).prediction.seconds
            real = programs.run(fault, [2, 64], stated=scaling, **noise).sizes[-1].seconds
            errors.append(abs(expected / real - 1.0))
        worst[name] = max(errors)
    return worst


def modelled() -> dict[str, float]:
    """The error on the largest size."""
    with tempfile.TemporaryDirectory() as work:
        for ranks in (*FITTED, FAR):
            write_run(Path(work, str(ranks)), Model(ranks, 72))
        fitted = [str(Path(work, str(ranks))) for ranks in FITTED]
        expected = json.loads(scalana.scaling(fitted, at=FAR).to_json())["prediction"]["seconds"]
        last = json.loads(scalana.scaling([fitted[0], str(Path(work, str(FAR)))]).to_json())["sizes"][-1]["seconds"]
    return {"predicted": expected, "run": last, "error": abs(expected / last - 1.0)}


def main() -> None:
    """Print one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulated", "modelled"))
    print(json.dumps({"simulated": simulated, "modelled": modelled}[parser.parse_args().what]()))


if __name__ == "__main__":
    main()
