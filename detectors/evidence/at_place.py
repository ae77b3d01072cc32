"""What ranks spend at a place, on a CPU or not, in which part of the run, and what lies below it or behind it."""

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


@dataclass(frozen=True, slots=True)
class LostByPhase:
    """Rank-seconds of a finding before, in and after the steady state."""

    startup_s: float
    steady_s: float
    end_s: float

    @property
    def total_s(self) -> float:
        """All of them."""
        return self.startup_s + self.steady_s + self.end_s


@dataclass(frozen=True, slots=True)
class InSteps:
    """In how many steps of the steady state nearly all of a finding is lost, and in which if these are few."""

    steps: int
    of: int
    numbers: list[int] | None = None
    counted: bool = False
    """Whether these are all steps in which the ranks do it at all, as no other rank does it."""
    step_s: float | None = None
    """Length of a step of the steady state, on average."""
    without_s: float | None = None
    """What it would take without the finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSteps:
    """How the cost of a finding changes over the steps of the steady state."""

    shape: str
    """``line``, ``jump`` or ``unclear``."""
    cost: str
    """``work`` at the place that others don't do, that ``time`` with what ranks wait for a core, the ``waiting`` that
    it causes, or ``idle`` time of a loop of reinforcement learning."""
    before_s: float
    """In the first step that was looked at; of a jump, on the level before it."""
    after_s: float
    """In the last one, or on the level after the jump."""
    first_step: int
    last_step: int
    steps: int
    """Steps that were looked at: fewer than all where it changes in those alone that pay."""
    of: int
    stands_for: int | None = None
    """Steps of the run for which they stand, if these are more."""
    from_step: int | None = None
    """The first one on the new level; of a jump alone."""
    per_step_s: float | None = None
    """Slope; of a line alone."""
    so_far_s: float | None = None
    """What it cost in all; None where the shape is unclear."""
    next_s: float | None = None
    """What it costs in as many steps again, if the line goes on or the level stays; None likewise."""
    series_s: list[float]
    """What it cost in each of ``series_steps``, or on average from there to the next."""
    series_steps: list[int]

    @property
    def rises(self) -> bool:
        """Whether it costs more in the end."""
        return self.after_s > self.before_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank(Flat):
    """By how much ranks are slow at equal work, and since when."""

    slow_times: float
    """Their work as a multiple of that of the median of the other ranks: without what is waited for a core, but for
    ranks that lack one."""
    slow_since: int | None = None
    """The step from which on they are slow; None: all the time."""
    slow_everywhere: bool = False
    """Whether nearly everything takes longer, by about this factor."""
    slow_places: int
    """Places in the program that take longer; 0 for ranks that lack a core."""


@dataclass(frozen=True, slots=True)
class OpenOperation(Flat):
    """The call in which ranks waited to the end."""

    waiting_ranks: list[int]
    operation: str
    sequence: int
    unreturned: bool = False
    """Whether they wait for the result of a remote call that the rank has to return."""
    unbegun: bool = False
    """Whether the rank itself waits for a remote call that no process has begun."""


@dataclass(frozen=True, slots=True)
class Deadlock(Flat):
    """What the rank that did not come waits for itself."""

    also_in: str | None = None
    circle: list[int] | None = None
