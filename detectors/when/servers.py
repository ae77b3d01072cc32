"""Which findings lie in waiting for servers that left no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.finding import Finding
from scalana.detectors.when.burst_work import BurstWork
from scalana.graphs.dependences.servers import ServerWaits
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline

ADVICE = (
    "Requests to the server come late, or the server is slow: send them earlier or in batches, and start the server "
    "under scalana run, too, to see its slow lines."
)


def with_servers(
    findings: Sequence[Finding],
    table: BlameTable,
    servers: ServerWaits,
    timeline: Timeline,
    steady: Periods | None = None,
) -> list[Finding]:
    """Findings whose work lies in such a wait with the seconds that a rank waits for each server (mean), by its name,
    and advice on that."""
    if not len(servers):
        return list(findings)
    waits, edges = _periods(servers, timeline.ranks), gap_edges(timeline)
    result = []
    for finding in findings:
        if finding.entries is not None:
            work = BurstWork.of(finding, table, timeline, edges).where_lost(finding, steady)
            if work.lies_in(waits):
                evidence = replace(finding.evidence, servers=_asked(finding, work, servers, timeline))
                finding = replace(finding, evidence=evidence, advice=ADVICE)
        result.append(finding)
    return result


def _asked(finding: Finding, work: BurstWork, servers: ServerWaits, timeline: Timeline) -> dict[str, float]:
    """The servers that a finding's ranks wait for between the calls that it is about, and for how long each in all."""
    seconds = seconds_of(servers, timeline.ranks, finding.ranks)
    asked = {
        name
        for row, name in enumerate(servers.names)
        if _periods(servers, timeline.ranks, row).inside_s(work.rank, work.since_s, work.until_s).any()
    }
    return {name: value for name, value in seconds.items() if name in asked}


def seconds_of(servers: ServerWaits, ranks: int, some: list[int]) -> dict[str, float]:
    """Seconds that some ranks wait for each server, of an average one, the longest first."""
    each = {
        name: float(_periods(servers, ranks, row).rank_s()[some].sum()) / max(len(some), 1)
        for row, name in enumerate(servers.names)
    }
    return {name: seconds for name, seconds in sorted(each.items(), key=lambda pair: -pair[1]) if seconds > 0.0}


def _periods(servers: ServerWaits, ranks: int, server: int = -1) -> Periods:
    """When ranks wait for any server, or for one."""
    rows = np.flatnonzero((servers.server == server) | (server < 0))
    return Periods.joined(servers.rank[rows], servers.start_s[rows], servers.end_s[rows], ranks)
