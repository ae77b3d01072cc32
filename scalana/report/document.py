"""An analysis as plain data: the JSON report, before it is written (``docs/json.md``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.detectors.kinds import kind_of
from scalana.report import compiled, modules, names, sections
from scalana.report.claims import UNNAMED
from scalana.report.regions import of_recorded
from scalana.report.steps import summary
from scalana.report.values import plain

if TYPE_CHECKING:
    from scalana.detectors.account import TimeSplit
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.evidence import Evidence
    from scalana.detectors.finding import Finding, Hop
    from scalana.detectors.when.regions import RegionTime
    from scalana.detectors.when.slow_steps import SlowStep
    from scalana.graphs.readers.processes.process_names import ProcessNames
    from scalana.graphs.run_info import RunInfo

SCHEMA = "scalana.report/1"


def document(analysis: Analysis) -> dict[str, Any]:
    """The report as dicts, lists, strings, numbers and None, with keys in the order in which they are documented."""
    run = analysis.ppg.run
    divided = {
        "steps": _steps(analysis),
        "time_steady": None if analysis.steady is None else _time(analysis.steady.time),
        "regions": [_region(region, analysis) for region in analysis.regions] or None,
        "modules": modules.document(analysis),
        "compiled": compiled.document(analysis),
    }
    return {
        "schema": SCHEMA,
        "run": {
            "command": [str(word) for word in run.command],
            "ranks": int(run.ranks),
            **_worlds(run),
            "seconds": plain(run.seconds),
            "rate_hz": plain(run.rate_hz) or None,
            "exit_code": plain(run.exit_code),
            "warnings": warnings(analysis),
        },
        "time": _time(analysis.time),
        "findings": [finding_entry(finding, run.cwd, run.names) for finding in by_loss(analysis.findings)],
        "communication": _communication(run),
        **sections.as_document(analysis),
        **{name: value for name, value in divided.items() if value is not None},
    }


def _steps(analysis: Analysis) -> dict[str, Any] | None:
    """The steps, and which of them were slow; None where there are none."""
    told = summary(analysis)
    if told is None:
        return None
    entry = {name: plain(value) for name, value in asdict(told).items()}
    entry["slowest"] = [step.number for step in analysis.slow_steps]
    entry["slow"] = [_slow(step, analysis.ppg.run) for step in analysis.slow_steps if step.cause is not None]
    if analysis.window is not None:
        entry["window"] = list(analysis.window)
    return entry


def _slow(step: SlowStep, run: RunInfo) -> dict[str, Any]:
    """A slow step of which the cause is known."""
    assert step.cause is not None
    return {
        "step": step.number,
        "seconds": plain(step.seconds),
        "root": _root(step.cause, run.cwd),
        **_ranks(step.cause, run.names),
        "lost_s": plain(step.cause.lost_s),
    }


def _region(region: RegionTime, analysis: Analysis) -> dict[str, Any]:
    seconds, wait_s = of_recorded(analysis, region)
    return {
        "name": region.path[-1],
        "path": list(region.path),
        "count": region.count,
        "least_s": plain(float(seconds.min())),
        "median_s": plain(float(np.median(seconds))),
        "most_s": plain(float(seconds.max())),
        "wait_s": plain(float(wait_s.sum())),
    }


def by_loss(findings: list[Finding]) -> list[Finding]:
    """Faults first, the largest loss first."""
    return sorted(findings, key=lambda finding: (not kind_of(finding.kind).is_fault, -finding.lost_s))


def warnings(analysis: Analysis) -> list[str]:
    """What the user should know about the quality of the record, each once; also what recorders could not record."""
    run = analysis.ppg.run
    return list(dict.fromkeys([*run.warnings, *run.notes, *analysis.warnings]))


def _time(time: TimeSplit) -> dict[str, Any]:
    return {
        "work_s": plain(time.work_s),
        "stall_s": plain(time.stall_s),
        "wait_s": plain(time.wait_s),
        "transfer_s": plain(time.transfer_s),
        "other_s": plain(time.other_s),
    }


def _communication(run: RunInfo) -> list[dict[str, Any]]:
    """What every rank that has a record did of it."""
    missing = set(run.missing_ranks)
    return [
        {"rank": rank, **_process(rank, run.names), "calls": int(calls), "comm_s": plain(float(seconds))}
        for rank, (calls, seconds) in enumerate(zip(run.calls_of_rank, run.comm_s_of_rank, strict=True))
        if rank not in missing
    ]


def _worlds(run: RunInfo) -> dict[str, Any]:
    """The worlds of a run and the names of its processes, where it has several."""
    if not run.names.several:
        return {}
    return {
        "worlds": [{"role": world.role, "first": world.first, "size": world.size} for world in run.worlds],
        "processes": [run.names.one(process) for process in range(run.ranks)],
    }


def _process(rank: int, processes: ProcessNames) -> dict[str, str]:
    """The name of a process, where those of the run have roles."""
    return {"process": processes.one(rank)} if processes.several else {}


def _ranks(finding: Finding, processes: ProcessNames) -> dict[str, Any]:
    """The processes of a finding by number, and by name where they have roles."""
    ranks = sorted(int(rank) for rank in finding.ranks)
    return {"ranks": ranks} | ({"processes": list(map(processes.one, ranks))} if processes.several else {})


def finding_entry(finding: Finding, cwd: str, processes: ProcessNames = UNNAMED) -> dict[str, Any]:
    """One finding, with files relative to ``cwd`` where they lie below it."""
    return {
        "kind": finding.kind,
        "root": _root(finding, cwd),
        **_ranks(finding, processes),
        "lost_s": plain(finding.lost_s),
        "lost_share": plain(finding.lost_share),
        "saving_s": plain(finding.saving_s),
        "path": [_hop(hop, cwd, processes) for hop in finding.path],
        "evidence": _evidence(finding.evidence, cwd),
        "advice": finding.advice,
    }


def _root(finding: Finding, cwd: str) -> dict[str, Any]:
    return {
        "file": names.relative(finding.file, cwd),
        "line": int(finding.line),
        "end_line": int(finding.end_line),
        "function": finding.function,
        "vertex": int(finding.vertex),
        "vertex_kind": str(finding.vertex_kind),
        **plain(finding.where.as_dict()),
    }


def _evidence(evidence: Evidence, cwd: str) -> dict[str, Any]:
    values: dict[str, Any] = plain(evidence.as_dict())
    if evidence.callers is not None:
        values["callers"] = [names.relative(caller, cwd) for caller in evidence.callers]
    code = [values["compiled"], *values["compiled"]["fused_with"]] if evidence.compiled is not None else []
    for one in (*(values[key] for key in ("leaf", "waits_at") if key in values), *code):
        one["file"] = names.relative(one["file"], cwd)
    return values


def _hop(hop: Hop, cwd: str, processes: ProcessNames) -> dict[str, Any]:
    return {
        "rank": int(hop.rank),
        **_process(int(hop.rank), processes),
        "file": names.relative(hop.file, cwd),
        "line": int(hop.line),
        "function": hop.function,
        "vertex_kind": str(hop.vertex_kind),
        "operation": hop.operation,
        "wait_s": plain(hop.wait_s),
        "ranks": hop.ranks,
    }
