"""Evidence at a place: what ranks spend there, on a CPU or not, and what lies below it or behind it."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class PlaceTime(Flat):
    """What ranks spend at the place of a finding: means over its ranks, and over the others."""

    seconds_here: float
    seconds_others: float | None = None
    """None where there are no others, or nothing is known of them."""
    ratio: float | None = None
    """NaN where the others spend nothing."""
    cpu_here: float | None = None
    cpu_others: float | None = None
    runs_here: float | None = None
    """How often what is around the place runs."""
    runs_others: float | None = None
    others_elsewhere: bool | None = None
    """Whether the others spend that in other calls of what is called at the place."""


@dataclass(frozen=True, slots=True)
class CpuSplit(Flat):
    """Of an excess, the parts that are spent on a CPU, and waiting for one."""

    cpu_share: float | None = None
    core_wait_share: float | None = None
    sleeps: bool | None = None
    """Whether the rest is sleep that does not come by chance."""


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A line of the program, and the function that it is in."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Leaf(CodePlace):
    """The innermost function below the place that holds most of the seconds."""

    calls: int
    """Lines that call it."""


@dataclass(frozen=True, slots=True)
class Alternative(CodePlace):
    """What other ranks do instead of what a finding is about, between the same two points."""

    seconds: float
    """Of another rank, on average."""


@dataclass(frozen=True, slots=True)
class LibraryPlace(CodePlace):
    """A place inside a library that the line of the finding calls."""

    calls: str
    """What it calls there; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class HiddenDelay(CodePlace):
    """The delay that takes the place of a finding's own, once that is fixed."""

    ranks: list[int]
    lost_s: float


@dataclass(frozen=True, slots=True)
class OtherPass:
    """Where the same cause makes the other pass of a module longer."""

    direction: str
    file: str
    line: int
    lost_s: float
    """Of what the finding costs, what is due to this pass."""


@dataclass(frozen=True, slots=True)
class SlowedLine:
    """A line that takes longer because a helper takes the core."""

    file: str
    line: int
    lost_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """Ranks that are at the place at the same time, while others wait."""

    ranks: list[int]
    begin_s: float
    """Since the begin of the run."""
    seconds: float
    """That each spends there, on average."""
