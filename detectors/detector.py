"""What a detector is: facts in, an outcome out. Detectors do not print, and do not know each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from scalana.detectors.facts import Facts
from scalana.detectors.kind import Kind
from scalana.detectors.reconcile import Extent, Verdict


@dataclass(slots=True)
class Outcome:
    """What a detector found."""

    verdicts: list[Verdict] = field(default_factory=list)
    explained: list[Extent] = field(default_factory=list)
    """What of the run is explained even where it gives no finding: a schedule's own bubble is no one's fault."""
    waiting_s: float = 0.0
    """Rank-seconds of waiting that wait states do not count: in calls that never returned."""
    sections: dict[str, object] = field(default_factory=dict)
    """Accounts and the like, by the name of the part of the report that shows them."""
    warnings: tuple[str, ...] = ()


class Detector(Protocol):
    """One kind of diagnosis."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Rows of the kinds of findings that it makes."""
        ...

    def detect(self, facts: Facts) -> Outcome:
        """Look at a run."""
        ...
