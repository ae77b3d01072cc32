"""What speaks for a finding, as far as it is known: a topic a field.

A field has the name of its key, whose meaning ``docs/report.md`` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from scalana.detectors.evidence.at_place import (
    Alternative,
    CodePlace,
    CpuSplit,
    HiddenDelay,
    Leaf,
    LibraryPlace,
    OtherPass,
    PlaceTime,
    SlowedLine,
    Turn,
)
from scalana.detectors.evidence.data_sources import SlowSource
from scalana.detectors.evidence.device_time import DeviceStep, DeviceTime
from scalana.detectors.evidence.expert_loads import ExpertWaits
from scalana.detectors.evidence.flat import Flat, as_dict, plain, updated
from scalana.detectors.evidence.lengths import UnevenLengths
from scalana.detectors.evidence.loop_wait import AtLine, LoopWait
from scalana.detectors.evidence.masks import UnevenMask
from scalana.detectors.evidence.module_code import CompiledCode, InnerModule, ModuleTime, ModuleWorkCompared
from scalana.detectors.evidence.open_calls import Deadlock, OpenOperation
from scalana.detectors.evidence.pipeline_time import PipelineTime
from scalana.detectors.evidence.pool_tasks import LargeTasks, PoolOrder, TaskTail, TaskTimes
from scalana.detectors.evidence.preparation import (
    Collecting,
    Compiling,
    InputBound,
    Loading,
    OneAtATime,
    Serialising,
    StartedBy,
    WorkerBound,
    WorkerStarts,
)
from scalana.detectors.evidence.run_parts import InSteps, LostByPhase, OverSteps
from scalana.detectors.evidence.size_costs import SizeCosts
from scalana.detectors.evidence.sizes import UnevenSizes
from scalana.detectors.evidence.slow_rank import SlowRank
from scalana.detectors.evidence.step_limits import BusyCores, LinkTime, SparedCalls, StepLimit, Transfers
from scalana.detectors.evidence.thread_plan import FarWeights, ThreadPlan


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a finding, as far as it is known. ``dataclasses.replace`` adds to it."""

    hang: OpenOperation | None = None
    occurrences: int | None = None
    """Operations in which the ranks were late."""
    place: PlaceTime | None = None
    whole_role: bool = False
    """Whether these are all processes of a role that do this, each for as long, and others wait for them."""
    deadlock: Deadlock | None = None
    started: StartedBy | None = None
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
    turns: list[Turn] | None = None
    """When which ranks do it, where they do it one after the other."""
    drifts: bool = False
    """Whether it changes over the run which ranks are late."""
    unsampled: bool = False
    """Whether nobody looked at what ranks did between their calls."""
    balanced_saving_s: float | None = None
    """Seconds by which the run would be shorter if the work at the place were spread evenly over the ranks."""
    together_saving_s: float | None = None
    """The same if ranks that do it again and again, but never two of them at once, did it at the same time."""
    behind: HiddenDelay | None = None
    sync_intervals: float | None = None
    """Stretches between calls over which the excess spreads."""
    pool: PoolOrder | None = None
    tail: TaskTail | None = None
    slowed: list[SlowedLine] | None = None
    """Lines that take longer because a helper takes the core."""
    passes: list[OtherPass] | None = None
    """The backward of a module whose forward stands at the place, or the other way round: of one cause."""
    tasks: TaskTimes | None = None
    lengths: UnevenLengths | None = None
    mask: UnevenMask | None = None
    sizes: UnevenSizes | None = None
    slow_rank: SlowRank | None = None
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
    source: SlowSource | None = None
    module_work: ModuleWorkCompared | None = None
    lost_by_phase: LostByPhase | None = None
    in_steps: InSteps | None = None
    over_steps: OverSteps | None = None
    compiling: Compiling | None = None
    collecting: Collecting | None = None
    serialising: Serialising | None = None
    servers: Mapping[str, float] | None = None
    """Seconds that a rank waits for each server without a record, the longest first."""
    compiled: CompiledCode | None = None
    input_bound: InputBound | None = None
    worker_starts: WorkerStarts | None = None
    worker_bound: WorkerBound | None = None
    one_at_a_time: OneAtATime | None = None
    step_limit: StepLimit | None = None
    transfers: Transfers | None = None
    spared: SparedCalls | None = None
    busy_cores: BusyCores | None = None
    thread_plan: ThreadPlan | None = None
    far_weights: FarWeights | None = None
    experts: ExpertWaits | None = None
    link: LinkTime | None = None
    device_step: DeviceStep | None = None
    order: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Names of the fields above that are known, in the order in which they became so: that of the report's keys."""

    def __post_init__(self) -> None:
        known = [one.name for one in fields(self)[:-1] if getattr(self, one.name) is not one.default]
        order = (*self.order, *(name for name in known if name not in self.order))
        object.__setattr__(self, "order", tuple(name for name in order if name in known))

    def updated(self, more: Evidence) -> Evidence:
        """The same with what else is known, which has the word where both know something."""
        return replace(self, **{name: updated(getattr(self, name), getattr(more, name)) for name in more.order})

    @property
    def sleeps(self) -> bool:
        """Whether what is neither on a CPU nor waiting for one is sleep that does not come by chance."""
        return self.cpu is not None and bool(self.cpu.sleeps)

    @property
    def is_bound(self) -> bool:
        """Whether a predicted saving is an upper bound."""
        return self.step_limit is not None or (self.pipeline is not None and self.pipeline.at_most)

    def cpu_split(self) -> tuple[float | None, float | None]:
        """Of the excess, the parts on a CPU and waiting for one; None where they are not known."""
        return (self.cpu.cpu_share, self.cpu.core_wait_share) if self.cpu is not None else (None, None)

    def as_dict(self) -> dict[str, Any]:
        """The same by the keys of the JSON report, in the order in which it became known."""
        found: dict[str, Any] = {}
        for name in self.order:
            value = getattr(self, name)
            found |= as_dict(value) if isinstance(value, Flat) else {name: plain(value)}
        return found
