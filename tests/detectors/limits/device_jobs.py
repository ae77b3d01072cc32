"""Emulated jobs in which all ranks spend the same, and the same jobs really changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import scalana
from scalana.detectors.finding import Finding
from scalana.importers.registry import import_traces
from tests.tools.device_job import MS, START, US, Fault, Job


@dataclass(frozen=True)
class Case:
    """A job, and what is to be found in it."""

    kind: str
    function: str
    """Begin of the name at which it is to be found."""
    job: Job
    changed: Job
    half: bool
    """Whether half of the cause is left in the changed job, or nothing."""


SHORT = Job(ranks=2, forward_ns=60 * US, backward_ns=60 * US)
SHORTER = Job(ranks=2, forward_ns=10 * US, backward_ns=15 * US)
USUAL = Job(ranks=2)


def with_shared(job: Job, **what: int | bool) -> Job:
    """A job in which something is wrong with every rank."""
    return replace(job, shared=Fault(**what))  # type: ignore[arg-type]


CASES = {
    "waits": Case("sync-bound", "aten::item", with_shared(SHORT, sync=True), SHORT, False),
    "loading": Case(
        "input-bound", "enumerate(DataLoader)", replace(USUAL, load_ns=4 * MS), replace(USUAL, load_ns=2 * MS), True
    ),
    "launches": Case("launch-bound", "", SHORTER, replace(SHORTER, operator_ns=20 * US), True),
    "copies": Case(
        "copy-bound", "aten::copy_", with_shared(USUAL, copy_ns=3 * MS), with_shared(USUAL, copy_ns=3 * MS // 2), True
    ),
    "kernels": Case(
        "device-bound", "aten::sort", with_shared(USUAL, kernel_ns=12 * MS), with_shared(USUAL, kernel_ns=6 * MS), True
    ),
    "transfers": Case(
        "communication-bound",
        "c10d::allreduce_",
        replace(USUAL, collective_ns=4 * MS),
        replace(USUAL, collective_ns=2 * MS),
        True,
    ),
}


def report_of(job: Job, folder: Path) -> scalana.Report:
    """The report of a job, from its traces."""
    import_traces([str(job.write(folder / "traces"))], str(folder / "run"), str(folder))
    return scalana.analyze(folder / "run")


def step_s(job: Job) -> float:
    """What a step of a job takes."""
    ends = [event["ts"] + event["dur"] for trace in job.traces() for event in trace["traceEvents"]]
    return float(max(ends) * 1e3 - START) * 1e-9 / job.steps


def predicted_s(finding: Finding, half: bool) -> float:
    """What a finding predicts for a step with half of its cause, or without it."""
    limit = finding.evidence.step_limit
    assert limit is not None
    return limit.half_step_s if half else limit.without_step_s
