"""Hangs, as a detector."""

from __future__ import annotations

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts
from scalana.detectors.hang.hangs import KIND, detect
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Extent, Verdict


class Hangs:
    """See :mod:`scalana.detectors.hang.hangs`."""

    kinds = (BY_NAME[KIND],)

    def detect(self, facts: Facts) -> Outcome:
        """One finding for each rank that others were still waiting for in the end."""
        findings = detect(facts.timeline, facts.psg, facts.run)
        waiting_s = sum(finding.lost_s for finding in findings)
        # What it speaks of lies after all that others speak of.
        return Outcome([Verdict(finding, Extent(())) for finding in findings], waiting_s=waiting_s)
