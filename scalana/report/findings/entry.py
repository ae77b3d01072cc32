"""One finding as plain data, for the JSON report."""

from __future__ import annotations

from typing import Any

from scalana.detectors.evidence import Evidence
from scalana.detectors.finding import Finding, Hop
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report import names
from scalana.report.findings.claims import UNNAMED
from scalana.report.values import plain


def process_entry(rank: int, processes: ProcessNames) -> dict[str, str]:
    """The name of a process, where those of the run have roles."""
    return {"process": processes.one(rank)} if processes.several else {}


def ranks_entry(finding: Finding, processes: ProcessNames) -> dict[str, Any]:
    """The processes of a finding by number, and by name where they have roles."""
    ranks = sorted(int(rank) for rank in finding.ranks)
    return {"ranks": ranks} | ({"processes": list(map(processes.one, ranks))} if processes.several else {})


def finding_entry(finding: Finding, cwd: str, processes: ProcessNames = UNNAMED) -> dict[str, Any]:
    """One finding, with files relative to ``cwd`` where they lie below it."""
    return {
        "kind": finding.kind,
        "root": root_entry(finding, cwd),
        **ranks_entry(finding, processes),
        "lost_s": plain(finding.lost_s),
        "lost_share": plain(finding.lost_share),
        "saving_s": plain(finding.saving_s),
        "path": [_hop(hop, cwd, processes) for hop in finding.path],
        "evidence": _evidence(finding.evidence, cwd),
        "advice": finding.advice,
    }


def root_entry(finding: Finding, cwd: str) -> dict[str, Any]:
    """The place of a finding, with its file relative to ``cwd`` where it lies below it."""
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
        **process_entry(int(hop.rank), processes),
        "file": names.relative(hop.file, cwd),
        "line": int(hop.line),
        "function": hop.function,
        "vertex_kind": str(hop.vertex_kind),
        "operation": hop.operation,
        "wait_s": plain(hop.wait_s),
        "ranks": hop.ranks,
    }
