"""Evidence about modules of models, and the code that is compiled of them."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class FusedOperator:
    """An operator of another line that is in the kernels of this one."""

    operator: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """The compiled code in which a finding's work lies."""

    file: str
    line: int
    operators: list[str]
    kernels: list[str]
    fused_with: list[FusedOperator]
    direction: str
    module: str
    module_class: str
    known_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTime:
    """What a step of the module takes in which a finding lies: means over its ranks, of the others the median."""

    on: str | None = None
    """``device`` or ``host``, where both are known; the seconds of the other one follow."""
    seconds_here: float
    seconds_others: float
    host_seconds_here: float | None = None
    host_seconds_others: float | None = None
    device_seconds_here: float | None = None
    device_seconds_others: float | None = None
    steps: int
    """That were timed."""
    cpu_here: float | None = None
    cpu_others: float | None = None
    calls_here: float | None = None
    """Calls in a step; None where all ranks call it as often."""
    calls_others: float | None = None
    elements_here: float | None = None
    """Of its input."""
    elements_others: float | None = None


@dataclass(frozen=True, slots=True)
class OwnOperator:
    """An operator that only the ranks of a finding run; of a step."""

    operator: str
    calls: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleWorkCompared:
    """What a step of the module computes in which a finding lies: means over its ranks, of the others the median."""

    flops_here: float | None = None
    flops_others: float | None = None
    bytes_here: float | None = None
    bytes_others: float | None = None
    operators_here: float | None = None
    operators_others: float | None = None
    seconds_here: float | None = None
    seconds_others: float | None = None
    stalled_s_here: float | None = None
    stalled_s_others: float | None = None
    between_s_here: float | None = None
    """Between operators."""
    between_s_others: float | None = None
    only_here: list[OwnOperator] | None = None
    speed: float | None = None
    """Operations a second, or bytes where there are none, as a part of the others'."""
    different: str | None = None
    """``inputs``, ``number`` or ``time``, as findings of devices have it; or ``between`` where the time lies outside of
    operators, and ``stalled`` where the module has no core, or sleeps."""


@dataclass(frozen=True, slots=True)
class InnerModule(Flat):
    """The module in which most of a device's excess lies."""

    module: str
    module_class: str
