"""How well the replay behind all savings gives the run back."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.annotator import Annotated
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.section_name import SectionName


class ReplayError:
    """The error of the replay, where a finding or the causal profile predicts a saving by it."""

    needs: frozenset[Need] = frozenset({Need.CALLS})

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """The same findings, and how far the replay of the unchanged run is from the run."""
        has_profile = not facts.is_part and not facts.has(Need.DEVICE) and facts.stretch is not None
        predicts = has_profile or any(finding.saving_s > 0.0 for finding in findings)
        return Annotated(findings, {REPLAY_ERROR.name: facts.replay.error()} if predicts else {})


REPLAY_ERROR: SectionName[float] = SectionName("replay-error")
"""A part of the length of the run; where anything is predicted."""
