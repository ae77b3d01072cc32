"""Models: their modules, the code that is compiled of them, devices, pipelines, and loops of reinforcement learning."""

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


@dataclass(frozen=True, slots=True)
class DeviceStep(Flat):
    """What an average device does in a step, or in a run without steps."""

    device_busy_s: float
    """Work, without communication."""
    device_idle_s: float
    """Nothing: neither work nor communication."""
    device_works: float
    """Kernels and copies, or stretches between marks."""


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
    worker_s: float | None = None
    """Of a slow worker for a microbatch."""
    peers_s: float | None = None
    """Of those of its stage in other replicas."""
    correlation: float | None = None
    """Of what forwards and backwards of the same microbatch take."""
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
