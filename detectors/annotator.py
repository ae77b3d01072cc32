"""What an annotator is: findings in, findings out that say more, with what else it knows. It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding


@dataclass(frozen=True, slots=True)
class Annotated:
    """What an annotator returns."""

    findings: Sequence[Finding]
    """As many as there were, in their order."""
    sections: Mapping[str, object] = field(default_factory=dict)
    """Tables and the like, by name (:mod:`scalana.detectors.section_name`)."""
    warnings: tuple[str, ...] = ()


class Annotator(Protocol):
    """One kind of knowledge about any finding: when it happens, what it lies in."""

    @property
    def needs(self) -> frozenset[Need]:
        """It is left out where the run has not all of these."""
        ...

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Look at the findings of a run."""
        ...
