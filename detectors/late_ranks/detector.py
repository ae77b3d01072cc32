"""Ranks that make others wait, as a detector."""

from __future__ import annotations

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts, Need
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.late_ranks.detect import detect
from scalana.detectors.late_ranks.interference import name_interference
from scalana.detectors.noise.contention import without_turns
from scalana.detectors.reconcile import Told, extent_of
from scalana.detectors.when.modules import tell_modules


class LateRanks:
    """See :mod:`scalana.detectors.late_ranks.detect`."""

    kinds = tuple(
        BY_NAME[name]
        for name in (
            "late-ranks",
            "serial",
            "waiting-for-core",
            "helper-takes-core",
            "slow-transfer",
            "carried-in",
            "unresolved",
        )
    )
    needs = frozenset({Need.CALLS})

    def detect(self, facts: Facts) -> Outcome:
        """The root causes of waiting."""
        timeline, psg = facts.timeline, facts.psg
        findings = detect(timeline, psg, facts.waits, facts.blame, facts.replay, facts.task_farms, facts.call_pools)
        findings = name_interference(findings, facts.ppg.metrics["helper_cpu_s"], psg)
        if findings and facts.modules is not None:
            tell_modules(findings, facts.modules, facts.ppg)
        findings = without_turns(findings, timeline, facts.run)
        return Outcome([Told(finding, extent_of(finding, timeline, psg, facts.blame)) for finding in findings])
