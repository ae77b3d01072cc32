"""What an analysis of one run is: all that a report needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalana.detectors.account import TimeSplit
from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.finding import Finding
from scalana.detectors.when.compiled_lines import CompiledLine
from scalana.detectors.when.module_times import ModuleTimes
from scalana.detectors.when.module_work import ModuleWork
from scalana.detectors.when.regions import RegionTime
from scalana.detectors.when.roofline import Roofline
from scalana.detectors.when.slow_steps import SlowStep
from scalana.detectors.when.steady import Steady
from scalana.graphs.ppg import PPG
from scalana.graphs.steps.steps import Steps


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
    steps: Steps | None = None
    """None where the run shows no steps."""
    steady: Steady | None = None
    """The steady state; None likewise."""
    slow_steps: list[SlowStep] = field(default_factory=list)
    """Longest first."""
    regions: list[RegionTime] = field(default_factory=list)
    """Empty where the user named none."""
    modules: ModuleTimes | None = None
    """None where no modules were timed."""
    work: ModuleWork | None = None
    """None where no operators were counted."""
    roofline: Roofline | None = None
    """The same beside what the machine can do; None where that was not measured."""
    compiled: list[CompiledLine] = field(default_factory=list)
    """Lines whose compiled kernels took time, those that took most first."""
    window: tuple[int, int] | None = None
    """First and last step where the analysis is of these alone; :attr:`steps` are only these then."""
