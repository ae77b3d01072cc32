"""How much of the time of all ranks is work, beside what findings say of the rest."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.annotator import Annotated
from scalana.detectors.efficiency.run_efficiency import EFFICIENCY
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding


class PopFactors:
    """The factors of the POP model."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """The same findings, and the efficiencies of the run."""
        efficiency = None if facts.causes_only else facts.efficiency
        return Annotated(findings, {EFFICIENCY.name: efficiency} if efficiency is not None else {})
