"""Loops without a mark whose workers are too slow: a step with more of them, predicted and then really run.

    python tests/benchmarks/worker_remedies.py

Workers sleep in place of what they would compute, so that cores do not matter. Prints a Markdown table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scalana import api
from scalana.detectors.facts import Facts
from scalana.detectors.rl.account import RLAccount
from scalana.detectors.whatif.worker_groups import worker_groups

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "jobs" / "programs" / "named_loops.py"
LOOPS = ("pool", "executor", "samples", "queue")
FEW, SCALE = 2, "4"


def recorded(which: str, workers: int, folder: Path) -> api.Report:
    run = folder / f"{which}-{workers}"
    command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(run), "--"]
    subprocess.run(
        [*command, sys.executable, str(PROGRAM), which, str(workers), SCALE],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return api.analyze(os.fspath(run))


def step_s(report: api.Report) -> float:
    """From one round of calls to the next, or what a step of the loop takes, without the first."""
    facts = Facts(report.ppg)
    for group in worker_groups(facts.timeline, facts.run.names, facts.call_pools):
        begins = [one.begin_s for one in group.rounds]
        if len(begins) > 1:
            return (begins[-1] - begins[0]) / (len(begins) - 1)
    return float(account_of(report).step_s[1:].mean())


def account_of(report: api.Report) -> RLAccount:
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    return account


def predicted(report: api.Report) -> dict[int, float]:
    """Seconds of a step, by the number of workers."""
    bound = next((each.evidence.worker_bound for each in report.findings if each.evidence.worker_bound), None)
    if bound is not None:
        return dict(zip(bound.predicted_workers, bound.predicted_step_s, strict=True))
    changes = {each.change: each.step_s for each in account_of(report).what_if if each.trusted}
    return {2 * FEW: changes["more-rollouts"]}


def main() -> None:
    print("| loop | workers | a step, ms | with | predicted, ms | really, ms | error, % |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for which in LOOPS:
            report = recorded(which, FEW, Path(folder))
            now_s = step_s(report)
            for workers, then_s in predicted(report).items():
                real_s = step_s(recorded(which, workers, Path(folder)))
                error = 100.0 * abs(then_s / real_s - 1.0)
                cells = (which, FEW, f"{now_s * 1e3:.0f}", workers, f"{then_s * 1e3:.0f}", f"{real_s * 1e3:.0f}")
                print(f"| {' | '.join(map(str, cells))} | {error:.1f} |", flush=True)


if __name__ == "__main__":
    main()
