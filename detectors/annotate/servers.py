"""Findings that lie in waiting for servers that left no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scalana.detectors.annotate.advice import SERVERS
from scalana.detectors.annotator import Annotated
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.when.burst_work import BurstWork
from scalana.detectors.when.server_waits import seconds_of, waits_for
from scalana.graphs.steps.periods import Periods


class WaitingForServers:
    """Waiting for servers without a record."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings whose work lies in it with the seconds that a rank waits for each server (mean), by its name."""
        if not len(facts.ppg.servers):
            return Annotated(findings)
        waits = waits_for(facts.ppg.servers, facts.timeline.ranks)
        return Annotated([_with_servers(finding, waits, facts) for finding in findings])


def _with_servers(finding: Finding, waits: Periods, facts: Facts) -> Finding:
    if finding.entries is None:
        return finding
    work = facts.lasting_work_of(finding)
    if not work.lies_in(waits):
        return finding
    evidence = replace(finding.evidence, servers=_asked(finding, work, facts))
    return replace(finding, evidence=evidence, advice=SERVERS)


def _asked(finding: Finding, work: BurstWork, facts: Facts) -> dict[str, float]:
    """The servers that a finding's ranks wait for between the calls that it is about, and for how long each in all."""
    servers, ranks = facts.ppg.servers, facts.timeline.ranks
    asked = {
        name
        for row, name in enumerate(servers.names)
        if waits_for(servers, ranks, row).inside_s(work.rank, work.since_s, work.until_s).any()
    }
    return {name: value for name, value in seconds_of(servers, ranks, finding.ranks).items() if name in asked}
