"""Faults planted in jobs on emulated devices, beside what a report says of them; as JSON.

Run: python -m tests.benchmarks.device_causes traces|marks|durations|limits

``traces``: emulated traces, which are imported. ``marks``: processes whose streams are marked while they run, on
devices whose times are exact and hosts whose times are not. ``durations``: the same with torch.distributed, where a
flight recorder tells how long collectives took. The jobs are those of `tests/detectors/device`. ``limits``: emulated
traces in which all ranks spend the same, and the same jobs really changed (`tests/detectors/limits/device_jobs.py`).

Of each fault: whether the first finding has its kind, rank and function; the seconds that others wait, and those that
are planted; of traces also the saving, and by how much the fault makes the job longer. Without a fault there is to be
no finding.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.detectors.device import test_durations, test_emulated, test_recorded
from tests.detectors.limits import device_jobs
from tests.tools.device_job import MS, US, Fault, Job

KINDS = ("launch-gap", "device-late", "initial-skew")


@dataclass(frozen=True)
class Told:
    """What a report says of a fault."""

    right: bool
    lost_s: float
    planted_s: float
    saving_s: float = 0.0
    costs_s: float = 0.0


def first(report: Any) -> Any:
    """The first finding of devices, or None."""
    return next((finding for finding in report.findings if finding.kind in KINDS), None)


def of_traces(folder: Path) -> dict[str, Told]:
    """Faults in traces, and jobs in which there is nothing to find."""
    found = {}
    for name, (job, kind, function, _) in test_emulated.CASES.items():
        report = test_emulated.report_of(job, folder / name)
        top = first(report)
        right = top is not None and (top.kind, top.ranks) == (kind, [job.fault.rank])
        right = right and len(report.findings) == 1 and top.function.startswith(function)
        waited_s = report.analysis.sections["device"].waiting_s
        costs_s = test_emulated.costs_s(job)
        seconds = (top.lost_s, top.saving_s) if top else (0.0, 0.0)
        found[name] = Told(right, seconds[0], waited_s, seconds[1], costs_s)
    harmless = {
        "hidden communication": Job(fault=Fault(1, kernel_ns=400 * US, less_ns=400 * US)),
        "balanced": Job(ranks=4, noise=0.02),
    }
    for name, job in harmless.items():
        findings = test_emulated.report_of(job, folder / name).findings
        found[name] = Told(not findings, sum(one.lost_s for one in findings), 0.0)
    skewed = test_emulated.report_of(Job(fault=Fault(2, starts_late_ns=20 * MS)), folder / "skew")
    top = first(skewed)
    right = top is not None and (top.kind, top.ranks) == ("initial-skew", [2])
    found["initial skew"] = Told(right, top.lost_s if top else 0.0, 3 * 20e-3)
    return found


def of_jobs(cases: dict[str, tuple[str, str, float]], record: Callable[[str, Path], Any]) -> dict[str, Told]:
    """Faults of rank 1 in jobs that are recorded once each."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, function, planted_s) in cases.items():
            work = Path(folder, name.replace(" ", "-"))
            work.mkdir()
            top = first(record(name, work))
            right = top is not None and (top.kind, top.ranks, top.function) == (kind, [1], function)
            found[name] = Told(right, top.lost_s if top else 0.0, planted_s)
    return found


@dataclass(frozen=True)
class Changed:
    """What a report says of what all ranks share, and the step of the job that was really changed."""

    right: bool
    predicted_s: float
    really_s: float


def of_limits(folder: Path) -> dict[str, Changed]:
    """Causes that all ranks share, on one rank and on two."""
    found = {}
    for name, case in device_jobs.CASES.items():
        for ranks in (1, 2):
            if ranks == 1 and case.kind == "communication-bound":
                continue
            job, changed = replace(case.job, ranks=ranks), replace(case.changed, ranks=ranks)
            top = device_jobs.report_of(job, folder / f"{name}-{ranks}").findings[0]
            right = (top.kind, top.ranks) == (case.kind, list(range(ranks))) and top.function.startswith(case.function)
            predicted_s = device_jobs.predicted_s(top, case.half) if top.evidence.step_limit is not None else 0.0
            found[f"{name}-{ranks}"] = Changed(right, predicted_s, device_jobs.step_s(changed))
    return found


def main() -> None:
    """Record or make the jobs, and print what is told of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("traces", "marks", "durations", "limits"))
    what = parser.parse_args().what
    found: dict[str, Any]
    if what in ("traces", "limits"):
        with tempfile.TemporaryDirectory() as folder:
            found = of_traces(Path(folder)) if what == "traces" else of_limits(Path(folder))
    elif what == "marks":
        found = of_jobs(test_recorded.CASES, test_recorded.report_of)
    else:
        steps = len(test_durations.MARKED)
        cases = {name: (*case[:2], steps * case[2]) for name, case in test_durations.CASES.items()}
        found = of_jobs(cases, lambda name, work: test_durations.job(work, name)[0])
    print(json.dumps({name: asdict(one) for name, one in found.items()}, indent=2))


if __name__ == "__main__":
    main()
