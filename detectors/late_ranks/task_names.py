"""Names of the calls that workers of a pool are late with."""

from __future__ import annotations

from dataclasses import replace

from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.whatif.task_tails import tail_of
from scalana.graphs.spans.tasks import NamedTasks


def name_tasks(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings about calls of a pool, with the long ones among these, and the one that ends last."""
    if all(finding.evidence.pool is None for finding in findings):
        return findings
    named = NamedTasks.of(facts.ppg.spans)
    return [_with_names(finding, named, facts) for finding in findings] if len(named) else findings


def _with_names(finding: Finding, named: NamedTasks, facts: Facts) -> Finding:
    rank = facts.timeline.locations.rank
    for pool in facts.call_pools if finding.evidence.pool is not None else ():
        if set(finding.ranks) <= {int(rank[worker]) for worker in pool.workers}:
            tail = tail_of(pool, named, rank, 0)
            return replace(finding, evidence=replace(finding.evidence, tail=tail)) if tail is not None else finding
    return finding
