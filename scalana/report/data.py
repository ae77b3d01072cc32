"""An analysis as plain data: the JSON report, before it is written (``docs/json.md``)."""

from __future__ import annotations

from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.annotate.replayed import REPLAY_ERROR
from scalana.detectors.ranking import ranked
from scalana.graphs.run_info import RunInfo
from scalana.report.findings.entry import finding_entry, process_entry
from scalana.report.findings.order import faults_of, warnings
from scalana.report.headline import headline
from scalana.report.topics.table import entries_of
from scalana.report.topics.time import entry
from scalana.report.values import plain

SCHEMA = "scalana.report/1"


def document(analysis: Analysis) -> dict[str, Any]:
    """The report as dicts, lists, strings, numbers and None, with keys in the order in which they are documented."""
    run = analysis.ppg.run
    return {
        "schema": SCHEMA,
        "run": {
            "command": [str(word) for word in run.command],
            "ranks": int(run.ranks),
            **_worlds(run),
            **_hosts(run),
            "seconds": plain(run.seconds),
            "rate_hz": plain(run.rate_hz) or None,
            "exit_code": plain(run.exit_code),
            **({"replay_error": plain(error)} if (error := analysis.section(REPLAY_ERROR)) is not None else {}),
            **({"going_on": True} if run.going_on else {}),
            "warnings": warnings(analysis),
        },
        "time": entry(analysis.time),
        **_headline(analysis),
        "findings": [finding_entry(finding, run.cwd, run.names) for finding in ranked(analysis.findings)],
        "communication": _communication(run),
        **entries_of(analysis),
    }


def _headline(analysis: Analysis) -> dict[str, Any]:
    """What would help more than any finding, where an account knows it."""
    _, text = headline(analysis, faults_of(analysis))
    return {"headline": text} if text else {}


def _communication(run: RunInfo) -> list[dict[str, Any]]:
    """What every rank that has a record did of it."""
    missing = set(run.missing_ranks)
    return [
        {"rank": rank, **process_entry(rank, run.names), "calls": int(calls), "comm_s": plain(float(seconds))}
        for rank, (calls, seconds) in enumerate(zip(run.calls_of_rank, run.comm_s_of_rank, strict=True))
        if rank not in missing
    ]


def _hosts(run: RunInfo) -> dict[str, Any]:
    """The hosts of a run, and which one each process is on."""
    hosts = list(dict.fromkeys(host for host in run.host_of_rank if host))
    rows = {host: row for row, host in enumerate(hosts)}
    lost = [{"host": host.name, "last_heard_s": plain(host.last_heard_s)} for host in run.lost_hosts]
    return {
        **({"hosts": hosts, "host_of_rank": [rows.get(host, -1) for host in run.host_of_rank]} if hosts else {}),
        **({"lost_hosts": lost} if lost else {}),
    }


def _worlds(run: RunInfo) -> dict[str, Any]:
    """The worlds of a run and the names of its processes, where it has several."""
    if not run.names.several:
        return {}
    return {
        "worlds": [{"role": world.role, "first": world.first, "size": world.size} for world in run.worlds],
        "processes": [run.names.one(process) for process in range(run.ranks)],
    }
