"""What speaks for a finding: one class a topic, and how they become the keys of the JSON report.

A field has the name of its key, whose meaning ``docs/report.md`` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any


class Flat:
    """A topic whose keys stand among those of the evidence itself, and not under one of their own."""

    __slots__ = ()


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
class LargeTasks(Flat):
    """Tasks that are far larger than their like."""

    large_tasks: int
    large_tasks_over_s: float


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
class PoolOrder:
    """What another order of the calls of a pool brings; 0 where that is not worth it."""

    workers: int
    tasks: int
    error: float
    """Of the replay of the pool."""
    longest_first_s: float
    halves_s: float


@dataclass(frozen=True, slots=True)
class SlowedLine:
    """A line that takes longer because a helper takes the core."""

    file: str
    line: int
    lost_s: float


@dataclass(frozen=True, slots=True)
class TaskTimes(Flat):
    """Seconds of a task of a pool, and tasks of a rank."""

    task_s_here: float
    task_s_others: float
    tasks_here: float
    tasks_others: float


@dataclass(frozen=True, slots=True)
class OpenOperation(Flat):
    """The call in which ranks waited to the end."""

    waiting_ranks: list[int]
    operation: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Deadlock(Flat):
    """What the rank that did not come waits for itself."""

    also_in: str | None = None
    circle: list[int] | None = None


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


@dataclass(frozen=True, slots=True)
class Loading:
    """Waiting for data from a loader."""

    workers: int | None = None
    dataset: str | None = None


@dataclass(frozen=True, slots=True)
class InputBound(Flat):
    """Waiting for data on all ranks, in a step of the steady state: the median of the ranks."""

    step_s: float
    data_s: float
    """Of these, waiting for data."""
    predicted_workers: list[int]
    """Workers of each rank's loader that would make a step shorter."""
    predicted_step_s: list[float]
    """What a step takes with them."""


@dataclass(frozen=True, slots=True)
class Compiling:
    """What a rank of the finding compiles, on average; of the others the median."""

    seconds: float
    compilations: float
    again: float
    """Of what was compiled before."""
    compilations_others: float | None = None


@dataclass(frozen=True, slots=True)
class Collecting(Flat):
    """Collections of garbage by a rank of the finding, on average."""

    collections: float
    """After start-up, of at least 1 ms."""
    collection_s: float
    longest_collection_s: float
    aligned_saving_s: float
    """Seconds by which the run is shorter with as many collections in the same steps on all ranks."""
    frozen_saving_s: float
    """The same without collections of the old generation: a bound for what ``gc.freeze`` saves."""


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


@dataclass(frozen=True, slots=True)
class DeviceTime(Flat):
    """What devices did, or what their hosts did instead of launching."""

    late_s: float | None = None
    operations: int | None = None
    """Operations in which others waited."""
    marked_steps: int | None = None
    """Steps that were looked at."""
    steps: int | None = None
    """Steps of the run for which they stand."""
    kernels: list[str] | None = None
    kernel: str | None = None
    slowdown: float | None = None
    slower: str | None = None
    """The same in words."""
    different: str | None = None
    work: str | None = None
    """What is different, in words."""
    host: list[str] | None = None
    doing: str | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineTime(Flat):
    """What is behind lost time of a pipeline; each cause has some of these. Seconds are those of a step."""

    load: float | None = None
    """Of the heaviest stage, times what it has without imbalance."""
    mean_s: float | None = None
    """Of a stage."""
    stage_s: float | None = None
    """Of the heaviest one."""
    at_most: bool = False
    """Whether the saving is an upper bound."""
    wall: str | None = None
    """What no cut of the layers makes smaller."""
    split: str | None = None
    """Of the layers, which is better."""
    microbatches: list[int] | None = None
    """Those that usually take longer."""
    which: str | None = None
    """The same in words."""
    times: float | None = None
    """Times as long as usual."""
    long_s: float | None = None
    usual_s: float | None = None
    here_s: float | None = None
    """Of a replica."""
    latency_s: float | None = None
    others_s: float | None = None
    """Latency of other links, or seconds of other replicas."""
    links: list[list[int]] | None = None
    """Sender and receiver of each."""
    host_s: float | None = None
    data_s: float | None = None
    idle_s: float | None = None
    """That the schedule leaves."""
    step_s: float | None = None
    other: str | None = None
    """Another schedule, in words."""
    other_s: float | None = None
    stage: int | None = None
    link: str | None = None
    """The links, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWait(Flat):
    """What is waited for in a loop of reinforcement learning."""

    phase: str
    in_steps: int
    of_steps: int
    phase_s_here: float
    phase_s_others: float
    unit: str
    """Of what is generated."""
    lost_s_a_step: float
    recurrence: str
    in_turns: bool = False
    trajectories: list[str] | None = None
    trajectory_tokens: list[int] | None = None
    trajectories_in_all: int | None = None
    longest: str | None = None
    """The longest trajectory, in words."""
    lambda_: float | None = None
    """Part of the generation that lies in its tail."""
    floor_s_per_token: float | None = None
    trained_tokens_here: float | None = None
    trained_tokens_others: float | None = None
    times: str | None = None
    """How many times as long slow processes take."""
    times_by_phase: str | None = None
    not_the_cause: list[str]


@dataclass(frozen=True, slots=True)
class AtLine(Flat):
    """What processes of a loop spend at the line of a finding."""

    at_line_s_here: float
    at_line_s_others: float
    own_line: bool = False
    """Whether others are hardly ever there."""


@dataclass(frozen=True, slots=True)
class ScalingForecast:
    """What a place costs on another number of ranks: seconds of an average rank, with a range."""

    ranks: int
    seconds: float
    low: float
    high: float
    ideal: float
    saving_s: float
    lost_s: float
    """Rank-seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCosts(Flat):
    """What a place costs an average rank, by the size of the run."""

    sizes: list[int]
    seconds: list[float]
    ideal: list[float]
    work: list[float]
    waiting_caused: list[float]
    transfer: list[float]
    deviation_s: float
    model: str | None = None
    growth: str | None = None
    confidence: float | None = None
    left_out: list[str] | None = None
    """Runs that fit no simple model."""
    predicted: ScalingForecast | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a finding, as far as it is known. ``dataclasses.replace`` adds to it."""

    hang: OpenOperation | None = None
    occurrences: int | None = None
    """Operations in which the ranks were late."""
    place: PlaceTime | None = None
    deadlock: Deadlock | None = None
    cpu: CpuSplit | None = None
    large_tasks: LargeTasks | None = None
    helper_share: float | None = None
    """Part of the time at the place that other threads or children of the ranks are active."""
    waits_at: CodePlace | None = None
    """Where ranks wait while a thread or child of theirs works at the place."""
    instead: Alternative | None = None
    """What the others do instead."""
    leaf: Leaf | None = None
    callers: list[str] | None = None
    """Call sites that lead to the place, innermost first."""
    library: LibraryPlace | None = None
    programs_share: float | None = None
    """Part of the excess that is due to the program, not to turns on shared cores."""
    steady_share: float | None = None
    """Part that ranks are late with on average."""
    caused_s: list[float] | None = None
    """Rank-seconds of waiting that each of the ranks causes, where all ranks are named."""
    drifts: bool = False
    """Whether it changes over the run which ranks are late."""
    unsampled: bool = False
    """Whether nobody looked at what ranks did between their calls."""
    behind: HiddenDelay | None = None
    sync_intervals: float | None = None
    """Stretches between calls over which the excess spreads."""
    pool: PoolOrder | None = None
    slowed: list[SlowedLine] | None = None
    """Lines that take longer because a helper takes the core."""
    tasks: TaskTimes | None = None
    inner: InnerModule | None = None
    device: DeviceTime | None = None
    pipeline: PipelineTime | None = None
    loop: LoopWait | None = None
    at_line: AtLine | None = None
    replay_off: float | None = None
    """By how much a replay differs from the run, where that is too much for a saving."""
    scaling: SizeCosts | None = None
    module_time: ModuleTime | None = None
    region: str | None = None
    """Nested names, joined by slashes."""
    loading: Loading | None = None
    module_work: ModuleWorkCompared | None = None
    lost_by_phase: LostByPhase | None = None
    in_steps: InSteps | None = None
    over_steps: OverSteps | None = None
    compiling: Compiling | None = None
    collecting: Collecting | None = None
    servers: Mapping[str, float] | None = None
    """Seconds that a rank waits for each server without a record, the longest first."""
    compiled: CompiledCode | None = None
    input_bound: InputBound | None = None
    order: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Names of the fields above that are known, in the order in which they became so: that of the report's keys."""

    def __post_init__(self) -> None:
        known = [one.name for one in fields(self)[:-1] if getattr(self, one.name) is not one.default]
        order = (*self.order, *(name for name in known if name not in self.order))
        object.__setattr__(self, "order", tuple(name for name in order if name in known))

    def updated(self, more: Evidence) -> Evidence:
        """The same with what else is known, which has the word where both know something."""
        return replace(self, **{name: _updated(getattr(self, name), getattr(more, name)) for name in more.order})

    @property
    def sleeps(self) -> bool:
        """Whether what is neither on a CPU nor waiting for one is sleep that does not come by chance."""
        return self.cpu is not None and bool(self.cpu.sleeps)

    @property
    def is_bound(self) -> bool:
        """Whether a predicted saving is an upper bound."""
        return self.pipeline is not None and self.pipeline.at_most

    def cpu_split(self) -> tuple[float | None, float | None]:
        """Of the excess, the parts on a CPU and waiting for one; None where they are not known."""
        return (self.cpu.cpu_share, self.cpu.core_wait_share) if self.cpu is not None else (None, None)

    def as_dict(self) -> dict[str, Any]:
        """The same by the keys of the JSON report, in the order in which it became known."""
        found: dict[str, Any] = {}
        for name in self.order:
            value = getattr(self, name)
            found |= _as_dict(value) if isinstance(value, Flat) else {name: _plain(value)}
        return found


def _updated(old: Any, new: Any) -> Any:
    """A topic with what another one of the kind knows besides."""
    is_flat = isinstance(new, Flat)
    if not is_flat or old is None:
        return new
    known = {one.name: getattr(old, one.name) for one in fields(new) if getattr(new, one.name) is one.default}
    return replace(new, **known)


def _as_dict(topic: Any) -> dict[str, Any]:
    """A topic by its keys, without what is not known: what is as it is by default."""
    known = {one: getattr(topic, one.name) for one in fields(topic)}
    return {one.name.rstrip("_"): _plain(value) for one, value in known.items() if value is not one.default}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _as_dict(value)
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
