"""What is predicted for a job of verl with a remedy, and what comes out when it is really followed: a table.

Run: python tests/benchmarks/verl_remedies.py [--steps N] [--keep FOLDER] [REMEDY ...]

`make verl` installs what it needs. The job (`tests/detectors/rl/programs/verl_grpo.py`) is recorded with causes that
are planted, and once more for each remedy: with one setting of verl changed, or with what was slow as fast as the rest.
All else stays. Compared are seconds of an average step but the first. Deviations above 10 % bear a mark.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana import api  # noqa: E402
from scalana.detectors.rl.account import RLAccount  # noqa: E402
from tests.tools import verl_job  # noqa: E402

STEPS = 9
TOLERANCE = 0.1


@dataclass(frozen=True)
class Job:
    """A job of verl."""

    planted: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remedy:
    """What is done about a cause."""

    text: str
    before: Job
    after: Job
    kind: str
    """Of the finding about the cause."""
    change: str
    """The prediction; empty for the saving of the finding itself."""


ALL = Job("long rewards=3 trainer=0.8 token=0.04")
ROWS = Job("rows=0.015", ("trainer.balance_batch=False",))
REMEDIES = {
    "workers": Remedy(
        "`reward.num_workers=2`", ALL, Job(ALL.planted, ("reward.num_workers=2",)), "rl-verifier", "faster-verifier"
    ),
    "rewards": Remedy("rewards as fast as in other steps", ALL, Job("long trainer=0.8 token=0.04"), "rl-verifier", ""),
    "cap": Remedy(
        "`data.max_response_length=12`", ALL, Job(ALL.planted, ("data.max_response_length=12",)), "rl-long-tail", "cap"
    ),
    "trainer": Remedy(
        "trainer as fast as the other", ALL, Job("long rewards=3 token=0.04"), "rl-slow-hardware", "no-slow-process"
    ),
    "rows": Remedy("`trainer.balance_batch=True`", ROWS, Job("rows=0.015"), "rl-training-imbalance", "balanced-rows"),
}


class Recorded:
    """Jobs that were recorded, each once."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._folder, self._steps = folder, steps
        self._reports: dict[Job, api.Report] = {}

    def of(self, job: Job) -> api.Report:
        """The report of a job; it is recorded if it was not before."""
        if job not in self._reports:
            name = "-".join([*job.planted.split(), *job.settings])
            folder = self._folder / name.replace("=", "-")  # which has a meaning in settings
            if not (folder / "run" / "run.json").exists():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "stdout").write_text(
                    verl_job.record(folder, self._steps, job.planted, *job.settings), encoding="utf-8"
                )
            # The first step has much that is no part of others: imports.
            self._reports[job] = api.analyze(os.fspath(folder / "run"), steps=(1, self._steps - 1))
        return self._reports[job]


def account_of(report: api.Report) -> RLAccount:
    """Its section on the steps."""
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    return account


def row(remedy: Remedy, recorded: Recorded) -> str:
    """A row of the table."""
    report = recorded.of(remedy.before)
    before, after = account_of(report), account_of(recorded.of(remedy.after))
    now_s, came_s = float(before.step_s.mean()), float(after.step_s.mean())
    found = next((each for each in report.findings if each.kind == remedy.kind), None)
    predicted_s = next((each.step_s for each in before.what_if if each.change == remedy.change), float("nan"))
    if not remedy.change and found is not None:
        predicted_s = now_s - found.saving_s / len(before.step_s)
    told = f"`{remedy.kind}`, {report.ppg.run.names.many(found.ranks)}" if found else f"no `{remedy.kind}` (!)"
    off = predicted_s / came_s - 1.0
    return (
        f"| {remedy.text} | {told} | {f'`{remedy.change}`' if remedy.change else 'its saving'} | {now_s:.2f} s "
        f"| {predicted_s:.2f} s | {came_s:.2f} s | {off:+.1%}{' (!)' if abs(off) > TOLERANCE else ''} |"
    )


def main() -> None:
    """Record all, and print the table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--keep", type=Path, help="a folder for the runs; those that it has are not recorded again")
    options.add_argument("remedy", nargs="*", help=", ".join(REMEDIES))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recorded = Recorded((asked.keep or Path(folder)).resolve(), asked.steps)
        print("| remedy | told before | prediction | step | predicted | measured | off |")
        print("|---|---|---|---|---|---|---|")
        for name, remedy in REMEDIES.items():
            if not asked.remedy or name in asked.remedy:
                print(row(remedy, recorded), flush=True)


if __name__ == "__main__":
    main()
