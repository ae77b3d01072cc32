"""Slow workers of a task farm, as a detector."""

from __future__ import annotations

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.noise.contention import without_turns
from scalana.detectors.reconcile import Verdict, extent_of
from scalana.detectors.slow_workers.slow_workers import KIND, detect


class SlowWorkers:
    """See :mod:`scalana.detectors.slow_workers.slow_workers`."""

    kinds = (BY_NAME[KIND],)

    def detect(self, facts: Facts) -> Outcome:
        """One finding for each task farm in which some ranks are slow."""
        timeline, psg = facts.timeline, facts.psg
        findings = detect(facts.task_farms, facts.blamed) if facts.task_farms else []
        findings = without_turns(findings, timeline, facts.run)
        return Outcome([Verdict(finding, extent_of(finding, timeline, psg)) for finding in findings])
