"""What loops wait for experts by layer, and what earlier loads and more room really bring:
``samples/serving/experts_on_demand.py``, and ``expert_bank_job.py``, which is written differently.

Run: python -m tests.benchmarks.expert_loads FOLDER
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scalana
from scalana.detectors.experts.expert_waits import EXPERTS, Experts

TRIES = 3
HERE = Path(__file__).parent
FILES = HERE.parents[1] / "samples" / "serving" / "experts_on_demand.py"


@dataclass(frozen=True)
class Case:
    """A job, and changes of it that are predicted: by change and number of layers, the options that make it so."""

    job: Path
    options: tuple[str, ...]
    ways: dict[tuple[str, int], tuple[str, ...]]


CASES = {
    "files": Case(
        FILES,
        (),
        {("ahead", 1): ("--ahead", "1"), ("ahead", 2): ("--ahead", "2"), ("more-slots", 0): ("--slots", "72")},
    ),
    "draft": Case(FILES, ("--draft", "3"), {("in-draft", 0): ("--early",)}),
    "bank": Case(
        HERE / "expert_bank_job.py",
        (),
        {("ahead", 1): ("--next",), ("in-draft", 0): ("--early",), ("more-slots", 0): ("--room", "8")},
    ),
}


def ran(case: Case, record: Path, *options: str) -> tuple[dict[str, Any], scalana.Report]:
    """What a recorded job prints of itself, and its report."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    words = [sys.executable, str(case.job), str(record.parent / "weights"), *case.options, *options]
    done = subprocess.run([*run, *words], stdout=subprocess.PIPE, text=True, check=True)
    printed = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return json.loads(printed), scalana.analyze(record)


def experts_of(report: scalana.Report) -> Experts | None:
    """Its section on experts."""
    return report.analysis.section(EXPERTS)


def pass_s(report: scalana.Report) -> float:
    """What a pass through the layers takes."""
    experts = experts_of(report)
    assert experts is not None
    return experts.pass_s


def tried(case: Case, folder: Path) -> dict[str, Any]:
    """The finding of a case in each run, errors of waiting by layer, and of predictions."""
    kinds, layers, predicted = [], [], {way: [] for way in case.ways}
    for number in range(TRIES):
        printed, report = ran(case, folder / f"now-{number}")
        kinds.append(report.findings[0].kind if report.findings else "")
        experts = experts_of(report)
        assert experts is not None
        waited_s = [one.exposed_s for one in experts.layers]
        layers.append(max(abs(is_s / has_s - 1.0) for is_s, has_s in zip(waited_s, printed["waited_s"], strict=True)))
        for one in experts.others:
            predicted.get((one.change, one.layers), []).append(one.pass_s)
    ways = {}
    for (change, ahead), options in case.ways.items():
        name = f"{change}-{ahead}" if ahead else change
        measured = [pass_s(ran(case, folder / f"{name}-{number}", *options)[1]) for number in range(TRIES)]
        known = predicted[change, ahead]
        error = abs(statistics.median(known) / statistics.median(measured) - 1.0) if known else 1.0
        ways[name] = {"predicted_s": known, "measured_s": measured, "error": error}
    return {"kinds": kinds, "layer_errors": layers, "ways": ways}


def main() -> None:
    folder = Path(sys.argv[1])
    found = {name: tried(case, folder / name) for name, case in CASES.items() if name in (sys.argv[2:] or CASES)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
