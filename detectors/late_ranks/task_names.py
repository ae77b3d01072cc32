"""Names of the tasks that workers of a pool are late with."""

from __future__ import annotations

from dataclasses import replace

from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.whatif.task_tails import tail_of
from scalana.graphs.spans.tasks import NamedTasks


def name_tasks(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings about tasks of a pool, with the long ones among these, and the one that ends last."""
    if all(finding.evidence.pool is None for finding in findings):
        return findings
    named = NamedTasks.of(facts.ppg.spans)
    return [_with_names(finding, named, facts) for finding in findings]


def _with_names(finding: Finding, named: NamedTasks, facts: Facts) -> Finding:
    order = finding.evidence.pool
    for pool in facts.task_pools if order is not None else ():
        if order is not None and (len(pool.workers), pool.tasks) == (order.workers, order.tasks):
            tail = tail_of(pool, named, facts.timeline.locations.rank, 0)
            return replace(finding, evidence=replace(finding.evidence, tail=tail))
    return finding
