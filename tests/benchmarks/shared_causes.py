"""Causes that all ranks share: named first, and the step without them predicted, which is then really run.

    python -m tests.benchmarks.shared_causes [--cause write]
    python -m tests.benchmarks.shared_causes --balanced

Each cause is planted in one process, in two ranks alike, and in two ranks of which the second is also late for another
reason. There both have to be found. Prints what was measured, as JSON: for each cause in how many of these the first
finding is right, and the largest error of the predicted step, in percent of the step of the program without the cause.
``--balanced`` runs programs without a cause, and prints how many of their reports have a finding.

The cause comes first, as it costs more of a step, but for what may be what the program is for: a late rank comes before
that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalana import api
from scalana.detectors.kinds import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "jobs" / "programs"
FILE = PROGRAMS / "shared_causes.py"
LAYOUTS = {"one": (1, ()), "alike": (2, ()), "late": (2, ("late",))}
"""Ranks, and what they are told."""
BALANCED = 10


@dataclass(frozen=True)
class Cause:
    """A cause, and what is done about it."""

    kind: str
    """Of its finding."""
    left: float = 0.0
    """Which part of it is left by the remedy."""
    layouts: tuple[str, ...] = tuple(LAYOUTS)


CAUSES = {
    "write": Cause("write-bound"),
    "log": Cause("write-bound"),
    "collect": Cause("collection-bound"),
    "python": Cause("python-bound"),
    "lock": Cause("lock-bound"),
    "interpreter": Cause("gil-bound"),
    "communicate": Cause("communication-bound", 0.5, ("alike", "late")),
    "cores": Cause("core-bound", layouts=("one", "alike")),
    "recompile": Cause("compile-bound"),
}


def run(layout: str, cause: str, part: float, folder: Path | None = None) -> float:
    """Run the program, recorded if a folder is given; returns the mean seconds of its steps."""
    ranks, arguments = LAYOUTS[layout]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    job = [sys.executable, *launch, str(FILE), cause, str(part), *arguments]
    record = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--"] if folder else []
    done = subprocess.run([*record, *job], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def predicted_s(report: api.Report, cause: Cause) -> float | None:
    """The step with the remedy, by the first finding of the kind; None where there is none."""
    for finding in report.findings:
        evidence = finding.evidence
        if finding.kind != cause.kind:
            continue
        if evidence.transfers is not None:
            return evidence.transfers.half_bytes_step_s
        if evidence.step_limit is not None:
            limit = evidence.step_limit
            return limit.half_step_s if cause.left else limit.without_step_s
    return None


def measured(name: str, layout: str) -> dict[str, Any]:
    """A cause in one layout: what was found, and what the remedy brings."""
    cause = CAUSES[name]
    lines = FILE.read_text(encoding="utf-8").splitlines()
    late = next(number for number, line in enumerate(lines, 1) if line.endswith("# <- late"))
    ranks = LAYOUTS[layout][0]
    with tempfile.TemporaryDirectory() as folder:
        step_s = run(layout, name, 1.0, Path(folder) / "run")
        report = api.analyze(str(Path(folder) / "run"))
    found = [(one.kind, one.ranks, one.line) for one in report.findings]
    shared = [number for number, one in enumerate(found) if one[:2] == (cause.kind, list(range(ranks)))]
    of_one = [number for number, (_, of, line) in enumerate(found) if of == [ranks - 1] and line == late]
    if layout != "late":
        right = shared[:1] == [0]
    else:
        order = of_one + shared if BY_NAME[cause.kind].is_last else shared + of_one
        right = bool(shared and of_one) and order[0] == 0 and order == sorted(order)
    then_s, really_s = predicted_s(report, cause), run(layout, name, cause.left)
    return {
        "right": right,
        "step_ms": round(step_s * 1e3, 1),
        "predicted_ms": round(then_s * 1e3, 1) if then_s is not None else None,
        "really_ms": round(really_s * 1e3, 1),
        "error": round(100 * abs(then_s / really_s - 1), 1) if then_s is not None else 100.0,
        "found": [f"{kind} of {of} at {line}" for kind, of, line in found],
    }


def balanced() -> dict[str, Any]:
    """How many reports of programs without a cause have a finding, or a cause that limits a step."""
    found = []
    for number in range(BALANCED):
        with tempfile.TemporaryDirectory() as folder:
            run("alike" if number % 2 else "one", "nothing", 1.0, Path(folder) / "run")
            report = api.analyze(str(Path(folder) / "run"))
        found.append([f"{one.kind} at {one.line}" for one in report.findings])
    return {"runs": BALANCED, "with_findings": sum(map(bool, found)), "found": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cause", choices=[*CAUSES], action="append", help="only these (default: all)")
    parser.add_argument("--balanced", action="store_true", help="programs without a cause instead")
    options = parser.parse_args()
    if options.balanced:
        print(json.dumps(balanced(), indent=1))
        return
    result = {}
    for name in options.cause or [*CAUSES]:
        result[name] = {layout: measured(name, layout) for layout in CAUSES[name].layouts}
        print(f"{name}: {result[name]}", file=sys.stderr, flush=True)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
