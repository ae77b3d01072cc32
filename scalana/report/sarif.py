"""The findings as SARIF 2.1.0 (OASIS), which editors and code review tools show next to the source."""

from __future__ import annotations

import hashlib
import json
import linecache
import os
from pathlib import Path
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Finding, Hop
from scalana.detectors.kinds import kind_of
from scalana.detectors.ranking import ranked
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.findings.claims import claim
from scalana.report.findings.order import warnings
from scalana.report.findings.sentences import cost
from scalana.report.values import plain
from scalana.version import __version__

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_FINGERPRINT = "scalana/v1"


def render(analysis: Analysis) -> str:
    """The findings as a SARIF log with one run. Files below the job's working directory are relative to ``JOB``."""
    run = analysis.ppg.run
    findings = ranked(analysis.findings)
    kinds = list(dict.fromkeys(finding.kind for finding in findings))
    driver = {"name": "scalana", "version": __version__, "rules": [_rule(kind) for kind in kinds]}
    log: dict[str, Any] = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "originalUriBaseIds": {"JOB": {"uri": _folder_uri(run.cwd)}} if run.cwd else {},
                "invocations": [
                    {
                        "executionSuccessful": run.exit_code in (None, 0),
                        "arguments": [str(word) for word in run.command],
                        "toolExecutionNotifications": [
                            {"level": "warning", "message": {"text": text}} for text in warnings(analysis)
                        ],
                    }
                ],
                "results": [_result(finding, kinds.index(finding.kind), run) for finding in findings],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _rule(kind: str) -> dict[str, Any]:
    return {"id": kind, "shortDescription": {"text": kind_of(kind).rule}}


def fingerprint(finding: Finding, cwd: str) -> str:
    """What stays the same where lines move: kind, file, function, and the text of the line.

    Tools that collect logs over time (GitHub's code scanning) tell by it which results are the same.
    """
    text = linecache.getline(finding.file, finding.line).strip() if finding.line > 0 else ""
    parts = (finding.kind, names.relative(finding.file, cwd), finding.function, str(finding.vertex_kind), text)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _result(finding: Finding, rule: int, run: RunInfo) -> dict[str, Any]:
    text = " ".join(part for part in (claim(finding, run.ranks, run.names), cost(finding, run), finding.advice) if part)
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": rule,
        "level": "warning" if finding.saving_s > 0 else "note",
        "message": {"text": text},
        "locations": [_location(finding.file, finding.line, finding.end_line, run.cwd)] if finding.file else [],
        "partialFingerprints": {_FINGERPRINT: fingerprint(finding, run.cwd)},
        "properties": {
            "ranks": sorted(int(rank) for rank in finding.ranks),
            "lost_s": plain(finding.lost_s),
            "lost_share": plain(finding.lost_share),
            "saving_s": plain(finding.saving_s),
        },
    }
    leaf = finding.evidence.leaf
    if leaf is not None:
        inside = _location(leaf.file, leaf.line, leaf.line, run.cwd)
        result["relatedLocations"] = [{**inside, "message": {"text": f"The time is spent in {leaf.function}"}}]
    if finding.path:
        steps = [_step(hop, run) for hop in finding.path]
        result["codeFlows"] = [
            {"message": {"text": "From the symptom to the root cause"}, "threadFlows": [{"locations": steps}]}
        ]
    return result


def _step(hop: Hop, run: RunInfo) -> dict[str, Any]:
    who, wait = names.waiters(hop.rank, hop.ranks, run.names)
    waits = f"{wait} {names.seconds(hop.wait_s)} in {hop.operation or hop.vertex_kind}"
    place = _location(hop.file, hop.line, hop.line, run.cwd)
    return {"location": {**place, "message": {"text": f"{who} {waits if hop.wait_s > 0 else 'is late here'}"}}}


def _location(file: str, line: int, end_line: int, cwd: str) -> dict[str, Any]:
    relative = names.relative(file, cwd)
    artifact: dict[str, Any] = {"uri": Path(file).as_uri() if os.path.isabs(file) else _quoted(file)}
    if relative != file:
        artifact = {"uri": _quoted(relative), "uriBaseId": "JOB"}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if line > 0:
        physical["region"] = {"startLine": int(line), "endLine": int(max(line, end_line))}
    return {"physicalLocation": physical}


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace(os.sep, "/"))


def _folder_uri(folder: str) -> str:
    return Path(folder).as_uri().rstrip("/") + "/"
