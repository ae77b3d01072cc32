"""What an analysis of one run is: all that a report needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from scalana.detectors.account import TimeSplit
from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.finding import Finding
from scalana.detectors.section_name import SectionName
from scalana.graphs.ppg import PPG
from scalana.graphs.steps.steps import Steps

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that a report needs. It does not change: ``dataclasses.replace`` makes another one."""

    ppg: PPG
    """With the models of its run in it."""
    findings: list[Finding]
    time: TimeSplit
    waits: WaitStates
    blame: BlameTable
    warnings: list[str] = field(default_factory=list)
    sections: Mapping[str, object] = field(default_factory=dict)
    """Accounts, tables and the like of detectors and annotators, by name; :meth:`section` gives one with its type."""
    steps: Steps | None = None
    """None where the run shows no steps."""
    window: tuple[int, int] | None = None
    """First and last step where the analysis is of these alone; :attr:`steps` are only these then."""

    @property
    def blamed(self) -> BlamedRun:
        """The run with what its waiting is blamed on."""
        return BlamedRun(self.ppg.timeline, self.ppg.psg, self.blame)

    def section(self, name: SectionName[T]) -> T | None:
        """A section; None where the run has nothing for it."""
        return cast("T | None", self.sections.get(name.name))
