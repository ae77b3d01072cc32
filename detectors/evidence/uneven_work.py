"""Work that differs between ranks: sequences, masks, sizes, sources of data, experts, tasks, numbers of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class Redistribution:
    """The run with another distribution of the sequences of each step over the ranks."""

    change: str
    """``by-cost``, ``by-cost-same-memory``, ``by-tokens``, ``blocks``, or ``split-evenly``. The last two have not the
    time for keys and values of other ranks: they are bounds."""
    saving_s: float
    """Seconds by which the run would be shorter, below 0 where it would be longer."""
    tokens: float | None
    """Tokens of the rank that has most, as a multiple of the most that any has now; None where sequences are cut
    anywhere."""
    received: float | None = None
    """Where sequences are cut: tokens whose keys and values the rank that gets most gets from others, in the step with
    most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenLengths(Flat):
    """What the sequences of a finding's ranks are and cost, in an average step of those whose lengths are known."""

    attention_times: float
    """Sum of the squares of the lengths, as a multiple of that of the median rank."""
    token_times: float
    """The same of the sum of the lengths."""
    is_attention: bool = False
    """Whether it is for the squares that these ranks are late, rather than for the sum."""
    equal_tokens: bool = False
    in_turn: bool = False
    """Whether it is another rank in each step; the multiples are then those of the rank that has most."""
    lengths_from: str
    """Kind of the argument that says the lengths."""
    lengths_file: str
    """Where the model is called with it."""
    lengths_line: int
    second_per_token: float
    second_per_square: float
    """Of a length."""
    longest: float
    """Tokens of the longest sequence."""
    fit: float
    """Part of the variance of the seconds of ranks in steps that these explain."""
    fitted_steps: int
    redistributions: list[Redistribution]
    """The first is packing by cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenMask(Flat):
    """What of a causal mask is left to the ranks of a finding, which divide sequences with others."""

    mask_times: float
    """Pairs of a query and a key that these ranks compute, as a multiple of what ranks compute on average."""
    mask_way: str
    """How keys and values come to all ranks: ``ring`` or ``gather``."""
    mask_ranks: int
    """Ranks that divide a sequence."""
    mask_bytes: int
    """Of a message with keys or values, or of what each rank gives to a collective."""
    mask_file: str
    """Where they are sent."""
    mask_line: int
    block_s: float
    """Mean seconds of a block that is not masked: all queries of a part with all keys of another one."""
    mask_share: float
    """Part of how ranks differ in the rounds that the mask explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenSizes(Flat):
    """How large the argument is with which a finding's ranks call their model, and what that explains."""

    size_times: float
    """Times as large as that of the median rank."""
    size_of: str
    """What is counted: ``edges``, or elements of an argument."""
    size_argument: str
    """Name of the argument."""
    size_here: float
    """Mean of the finding's ranks, in a step."""
    size_median: float
    sizes: list[float]
    """Of every rank."""
    size_file: str
    """Where the model is called with it."""
    size_line: int
    size_share: float
    """Part of the variance of what ranks take that sizes explain."""


@dataclass(frozen=True, slots=True)
class OtherLoading:
    """A step with another way to load."""

    change: str
    """``dealt-evenly``, ``in-every-batch``, ``more-workers``, ``own-workers`` or ``further-ahead``."""
    step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSource(Flat):
    """What a source of a mixture costs, in an average step of the steady state."""

    source: str
    sources: int
    """Of the mixture."""
    source_samples: float
    """Part of all samples that are of this source."""
    source_share: float
    """Part of the seconds of loading."""
    sample_s: float
    other_sample_s: float
    """A sample of the others, on average."""
    source_workers: int
    """Of each rank's loader, 0 where ranks load themselves."""
    steps_with_s: float | None = None
    """What a step takes in which some rank has samples of it."""
    steps_without_s: float | None = None
    source_times: float | None = None
    """What the finding's ranks load of it, as a multiple of the median rank; None where all load about as much, or
    the median rank nothing."""
    source_alone: bool = False
    """Whether the median rank loads none."""
    source_worker: int | None = None
    """Number of the worker that loads most of it on the rank that waits longest; None where workers share it."""
    source_worker_rank: int | None = None
    source_worker_share: float | None = None
    source_step_s: float
    other_loading: list[OtherLoading]
    """The best one first; empty where a model of the loaders does not take as long as the run did."""


@dataclass(frozen=True, slots=True)
class OtherLoads:
    """A pass through the layers with experts loaded earlier, or with more of them kept."""

    change: str
    """``ahead``, ``in-draft`` or ``more-slots``."""
    pass_s: float
    layers: int = 0
    """Layers ahead."""
    slots: int = 0
    """Experts that a cache has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertWaits(Flat):
    """Waiting for experts; seconds are of an average rank."""

    expert_wait_s: float
    """Exposed: not behind what is computed meanwhile."""
    expert_load_s: float
    """That the loads take, in whichever thread."""
    expert_loop_s: float
    """From the first lookup to the end of the last one."""
    expert_pass_s: float
    """Of a pass through the layers."""
    expert_lookups: int
    expert_loads: int
    expert_hit_rate: float | None
    """Part of the lookups that need no load; None where the lookups that need none were not seen."""
    expert_bytes: float
    expert_bytes_per_s: float
    """While something is loaded."""
    costliest_layer: str
    """That which waits longest; empty where layers are not known."""
    costliest_layer_s: float
    expert_lookup: str
    """Function of the program that looks experts up."""
    expert_loader: str
    """The one that loads them."""
    expert_slots: int | None
    """Experts that the cache has room for, as lookups that need no load show; None where it keeps others than those
    that were used last."""
    expert_slots_by_layer: bool
    """Whether each layer has a cache with so much room."""
    other_loads: list[OtherLoads]
    """The shortest first; empty where a model of the lookups does not take as long as the run did."""


@dataclass(frozen=True, slots=True)
class LargeTasks(Flat):
    """Tasks that are far larger than their like."""

    large_tasks: int
    large_tasks_over_s: float


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
class TaskTail(Flat):
    """The calls of a pool that take far longer than most, and the one that ends last."""

    tail_tasks: int
    """Calls that take far longer than the median one."""
    tail_of: int
    """All calls."""
    tail_percent: float
    """Part of the time of all calls that these take."""
    tail_last: str
    """Name of the call that ends last."""
    tail_last_begin_s: float
    """When it begins, after the first call was handed over."""
    tail_alone_s: float
    """How long it runs after all others have ended."""
    tail_workers: int
    tail_error: float
    """Of the replay of the pool."""
    longest_first_s: float
    """By how much earlier the pool would be done with the longest calls first."""
    halves_s: float
    """The same with all calls cut in half."""
    twice_the_workers_s: float | None = None
    """The same with twice as many workers; None where it is not known whether there are cores for them."""


@dataclass(frozen=True, slots=True)
class TaskTimes(Flat):
    """Seconds of a task of a pool, and tasks of a rank."""

    task_s_here: float
    task_s_others: float
    tasks_here: float
    tasks_others: float


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
