"""Records samples into a folder, for ``tests.benchmarks.accuracy``.

    python -m tests.benchmarks.record_samples torch RUNS       samples/*.py, as their headers say, into RUNS/NAME
    python -m tests.benchmarks.record_samples scaling RUNS     samples/scaling at all sizes, into RUNS/NAME-RANKS

Runs that are there already are kept. Programs in C++ run under the MPI of ``SCALANA_TEST_MPI``, or of PATH.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.samples.conftest import scalana
from tests.samples.planted import read_samples
from tests.samples.test_scaling_samples import SCALING_SAMPLES, Comparison

MORE_SIZES = (2, 3, 4, 6, 8)
"""Of programs in C++: the last one is predicted from the others."""


def record_torch(runs: Path) -> None:
    """Every sample once, four ranks each."""
    for sample in read_samples():
        folder = runs / sample.name
        if (folder / "run.json").is_file():
            continue
        done = scalana("run", "--no-report", "-o", str(folder), "--", *sample.launch, str(sample.path))
        if done.returncode:
            sys.exit(f"{sample.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def record_scaling(runs: Path) -> None:
    """Every sample at each of its sizes."""
    for sample in SCALING_SAMPLES:
        sizes = {*sample.sizes, *(MORE_SIZES if sample.path.suffix == ".cpp" else ())}
        for ranks in sorted(sizes):
            Comparison(sample, runs).run(ranks, 0)


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("torch", "scaling"))
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    {"torch": record_torch, "scaling": record_scaling}[options.what](options.runs.resolve())


if __name__ == "__main__":
    main()
