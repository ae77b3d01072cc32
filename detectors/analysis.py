"""What an analysis of one run is: all that a report needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalana.detectors.account import TimeSplit
from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.finding import Finding
from scalana.graphs.ppg import PPG


@dataclass(slots=True)
class Analysis:
    """Everything that a report needs."""

    ppg: PPG
    findings: list[Finding]
    time: TimeSplit
    waits: WaitStates
    blame: BlameTable
    warnings: list[str] = field(default_factory=list)
    sections: dict[str, object] = field(default_factory=dict)
    """Accounts and the like of detectors, by the name of the part of the report that shows them."""
