"""A workload replayed as a simulation: on any number of replicas, by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.rl.decode import longest_first
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.workload.costs import Decode
from scalana.workload.errors import WorkloadError
from scalana.workload.replica_state import Costs, Course, Work
from scalana.workload.rollout_loop import Rules, Training, run
from scalana.workload.step_costs import GENERATION, WEIGHTS, StepCosts, lengths_of, spent
from scalana.workload.trajectories import Workload

AWAITED = 0.95
"""Part of the trajectories under way that a step awaits where the rest is carried over."""
PARTS = 16
"""Of a batch that trainers take as its trajectories end: the mini-batches of Laminar's experiments."""
LONGER, KNEE = 1.25, 2.0
"""How many times as long a decoding step may get on a replica that gets the tail of others: a little where all wait for
the tail, and to where a larger batch hardly brings more tokens where nobody does (Laminar's roofline batch)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How trajectories come to replicas, and how steps follow each other."""

    name: str
    text: str
    """What it does, in reports."""
    places: str = "free"
    """``recorded``, ``even`` or ``longest``: decided before a step; ``free``: to the replica with the fewest, as places
    become free."""
    behind: int | None = 0
    """Updates that may be lacking when a step is begun; None: as many as the setting says."""
    by_step: bool = True
    """Whether a trainer awaits the trajectories of its step; the first so many that end, else."""
    in_turn: bool = True
    """Whether a step is begun when all trajectories of the one before have ended."""
    carried: bool = False
    """Whether trajectories that are not awaited go on in the next step."""
    apart: bool = False
    """Whether trainers have devices of their own."""
    packs: bool = False
    """Whether the tail is moved onto few replicas."""
    shares: bool = False
    """Whether a replica takes new weights, whenever it needs them, for its share of a batch."""
    streams: bool = False
    """Whether trainers begin with a part of a batch when it is there."""


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("recorded", "as it was", "recorded"),
        Policy("batch", "equal parts of a step", "even"),
        Policy("fifo", "to the replica with the fewest"),
        Policy("longest", "first, lengths known", "longest"),
        Policy("repack", "equal parts, the tail on few replicas", "even", packs=True),
        Policy(
            "partial",
            "ends at 95 %, the rest goes on",
            behind=None,
            by_step=False,
            in_turn=False,
            carried=True,
        ),
        Policy("one-step-off", "generates while it trains", behind=1, apart=True),
        Policy("stream", "likewise, trains on parts as they end", behind=1, apart=True, streams=True),
        Policy(
            "relay",
            "replicas take weights when their share ends",
            behind=None,
            by_step=False,
            in_turn=False,
            apart=True,
            shares=True,
            streams=True,
        ),
        Policy(
            "relay-repack",
            "likewise, the tail on few replicas",
            behind=None,
            by_step=False,
            in_turn=False,
            apart=True,
            packs=True,
            shares=True,
            streams=True,
        ),
        Policy(
            "async",
            "trains on what ends first",
            behind=None,
            by_step=False,
            in_turn=False,
            apart=True,
        ),
    )
}
"""By name."""


@dataclass(frozen=True, slots=True)
class Relay:
    """How weights come from trainers to replicas that take them when they need them."""

    stall_s: float
    """Until trainers go on."""
    late_s: float
    """From then on until replicas can take them."""
    pull_s: float
    """What a replica takes to take them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """On what, and how, a workload is replayed."""

    policy: str
    replicas: int
    decode: Decode
    steps: StepCosts | None = None
    """None: generation alone."""
    staleness: int = 4
    """Updates that may be lacking when a trajectory is begun, where the policy leaves it open."""
    trainers: int | None = None
    """Processes that train; None: as many as were recorded, or as there are replicas where these train, too."""
    relay: Relay | None = None
    """What weights take over relays; None: as long for each replica, and for trainers, as was recorded for all."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came out."""

    setting: Setting
    step_s: FloatArray
    """``[steps]``"""
    phases: Mapping[str, FloatArray]
    """The longest that a process spent in each phase, by name ``[steps]``."""
    begin_s: FloatArray
    """Since the replay began ``[trajectories]``."""
    end_s: FloatArray
    """``[trajectories]``"""
    replica: IntArray
    """``[trajectories]``"""
    stale: IntArray
    """Updates between the weights that a trajectory was begun with and those it trains ``[trajectories]``."""
    tokens: float
    """Read and generated."""
    busy: float
    """Part of the time of all replicas in which they generated."""
    spent_s: Mapping[str, FloatArray] = field(default_factory=dict)
    """What each process spends in each phase, where they take turns: ``[ranks, steps]``."""

    @property
    def total_s(self) -> float:
        """Of all steps."""
        return float(self.step_s.sum())

    @property
    def tokens_per_s(self) -> float:
        """Throughput, as Laminar counts it: tokens of prompts and of responses over time."""
        return self.tokens / self.total_s if self.total_s > 0.0 else 0.0


def replay(workload: Workload, setting: Setting) -> Replayed:
    """Simulate a workload.

    Raises:
        WorkloadError: the policy cannot be used with it.
    """
    policy = POLICIES[setting.policy]
    if setting.replicas < 1:
        raise WorkloadError(f"--replicas {setting.replicas}: must be at least 1")
    if policy.packs and setting.decode.whole_batches:
        raise WorkloadError(f"--policy {policy.name}: batches end as a whole here, so that there is no tail to move")
    pinned = _pinned(workload, policy, setting.replicas)
    training = _training(workload, policy, setting)
    work = Work(
        workload.turns.first,
        workload.turns.read,
        workload.turns.tokens,
        _tools_s(workload, policy),
        workload.step,
        pinned,
    )
    course = run(work, _costs(setting), _rules(workload, policy, setting), training)
    if course is None:
        raise WorkloadError(f"--staleness {setting.staleness}: nothing can begin; allow at least 0")
    if policy.apart or policy.carried:
        return _overlapping(workload, setting, course, training)
    placed = pinned if len(workload) and (pinned >= 0).all() else course.replica
    return _in_turn(workload, setting, course, placed)


def _tools_s(workload: Workload, policy: Policy) -> FloatArray:
    """Seconds of tools; where steps overlap, the verifier is the last of them: each is scored when it ends."""
    if not (policy.apart or policy.carried):
        return workload.turns.tool_s
    tools = workload.turns.tool_s.copy()
    tools[workload.turns.first[1:] - 1] += np.nan_to_num(workload.verifier_s)
    return tools


def _costs(setting: Setting) -> Costs:
    decode = setting.decode
    floor, sequence, context = float(decode.floor_s), float(decode.sequence_s), float(decode.context_s)
    return Costs(
        floor, sequence, context, float(decode.start_s), float(decode.read_s), decode.factors(setting.replicas)
    )


def _rules(workload: Workload, policy: Policy, setting: Setting) -> Rules:
    """The rules of a policy, for the kernel."""
    batch = max(int(np.median(np.bincount(workload.step))), 1)
    behind = setting.staleness if policy.behind is None else policy.behind
    flying = len(workload)
    relay = _relay(setting) if policy.shares else Relay(0.0, 0.0, 0.0)
    if policy.carried:
        flying = max(int(np.ceil(batch / AWAITED)), batch + 1)
        behind = workload.steps
    return Rules(
        slots=setting.decode.slots,
        whole=setting.decode.whole_batches,
        by_step=policy.by_step,
        batch=-(-len(workload) // workload.steps) if not policy.by_step else batch,
        in_flight=flying,
        behind=behind,
        in_turn=policy.in_turn,
        pauses=not policy.apart,
        share=-(-batch // setting.replicas) if policy.shares else 0,
        few=_few(workload, setting.decode, KNEE if policy.shares else LONGER) if policy.packs else 0,
        parts=min(PARTS, batch) if policy.streams else 1,
        pull_s=relay.pull_s,
        late_s=relay.late_s,
    )


def _few(workload: Workload, decode: Decode, longer: float) -> int:
    """Trajectories up to which a decoding step takes at most so many times as long as one alone; 0 where that is none
    but one."""
    held = float(np.nan_to_num(workload.prompt).mean() + workload.response.mean() / 2)
    each = decode.sequence_s + decode.context_s * held
    if each <= 0.0:
        return decode.slots
    few = int((longer * (decode.floor_s + each) - decode.floor_s) / each)
    return min(few, decode.slots) if few > 1 else 0


def _pinned(workload: Workload, policy: Policy, replicas: int) -> IntArray:
    """The replica of each trajectory, -1 where it is decided as places become free ``[trajectories]``."""
    result = np.full(len(workload), -1)
    if policy.places == "free":
        return result
    if policy.places == "recorded":
        if (workload.replica < 0).any():
            raise WorkloadError(f"{workload.source}: does not say which replica generated what: use --policy batch")
        if int(workload.replica.max()) >= replicas:
            recorded = int(workload.replica.max()) + 1
            raise WorkloadError(f"--replicas {replicas}: {recorded} were recorded; use --policy batch for fewer")
        return workload.replica
    prompts = workload.prompts()
    for step in range(workload.steps):
        rows = np.flatnonzero(workload.step == step)
        if policy.places == "longest":
            for replica, part in enumerate(longest_first(workload.response[rows], replicas)):
                result[rows[part]] = replica
        else:
            in_order = rows[np.argsort(prompts[rows], kind="stable")]
            result[in_order] = np.arange(len(rows)) * replicas // len(rows)
    return result


def _by_replica(workload: Workload, replica: IntArray, values: FloatArray, ranks: int) -> FloatArray:
    """Sums of values by replica and step ``[ranks, steps]``."""
    result = np.zeros((ranks, workload.steps))
    np.add.at(result, (replica, workload.step), values)
    return result


def _trained(workload: Workload, replica: IntArray, costs: StepCosts, ranks: int) -> FloatArray:
    """Tokens that each process trains on: its own, where it is so recorded; as recorded, on as many processes; or else
    as many each ``[ranks, steps]``."""
    own = _by_replica(workload, replica, workload.response + np.nan_to_num(workload.prompt), ranks)
    if costs.trains_own:
        return own
    known = np.isfinite(costs.trained).all()
    if workload.times is not None and workload.times.ranks == ranks and np.isfinite(workload.times.trained).all():
        return workload.times.trained
    if known and costs.ranks == ranks:
        return np.repeat(costs.trained[:, None], workload.steps, axis=1)
    return np.repeat(own.mean(axis=0)[None, :], ranks, axis=0)


def _in_turn(workload: Workload, setting: Setting, course: Course, placed: IntArray) -> Replayed:
    """Steps one after the other, each phase of all processes behind the one before; ``placed`` is the replica that
    trajectories are of, from which repacking may have moved them ``[trajectories]``."""
    costs = setting.steps
    ranks = max(setting.replicas, costs.ranks if costs is not None and setting.policy == "recorded" else 0)
    begins = np.concatenate(([0.0], course.train_end_s[:-1]))
    made = np.zeros((ranks, workload.steps))
    np.maximum.at(made, (course.replica, workload.step), course.end_s - begins[workload.step])
    phases = {GENERATION: made}
    meets, rest = frozenset({GENERATION}), 0.0
    if costs is not None:
        verifier = _by_replica(workload, placed, np.nan_to_num(workload.verifier_s), ranks)
        tokens = _trained(workload, placed, costs, ranks)
        if setting.trainers is not None:
            tokens = tokens * (ranks / setting.trainers)
        phases |= spent(costs, tokens, verifier, ranks)
        meets, rest = costs.meets, costs.rest_s
    step_s = np.maximum(lengths_of(phases, meets) + rest, 0.0)
    later = np.concatenate(([0.0], np.cumsum(step_s)[:-1])) - begins
    return Replayed(
        setting,
        step_s,
        {name: seconds.max(axis=0) for name, seconds in phases.items()},
        course.begin_s + later[workload.step],
        course.end_s + later[workload.step],
        course.replica,
        np.zeros(len(workload), np.int64),
        _tokens(workload),
        float(course.busy_s.sum()) / max(float(step_s.sum()) * len(np.unique(course.replica)), 1e-12),
        phases,
    )


def _training(workload: Workload, policy: Policy, setting: Setting) -> Training:
    """What each batch takes when its trajectories are there: trained on by as many processes as were recorded, or as
    the setting says."""
    costs, nothing = setting.steps, np.zeros(workload.steps)
    if costs is None or not (policy.apart or policy.carried):
        return Training(nothing, nothing)
    ranks = costs.ranks
    tokens = np.bincount(workload.step, workload.response + np.nan_to_num(workload.prompt))
    each = np.repeat(tokens[None, :] / (setting.trainers or costs.trainers), ranks, axis=0)
    phases = spent(costs, each, np.zeros((ranks, workload.steps)), ranks)
    whole = lengths_of(phases, costs.meets) + max(costs.rest_s, 0.0) if phases else nothing
    if not policy.streams:
        return Training(whole, nothing)
    weights = _weights_s(costs) if WEIGHTS in phases else 0.0
    after = np.minimum(weights + max(costs.rest_s, 0.0), whole)
    if policy.shares:
        stall = _relay(setting).stall_s - weights
        return Training(whole - after, np.maximum(after + stall, 0.0))
    return Training(whole - after, after)


def _weights_s(costs: StepCosts) -> float:
    """What new weights take for all, as recorded."""
    return float(costs.fixed[WEIGHTS].max()) if WEIGHTS in costs.fixed else 0.0


def _relay(setting: Setting) -> Relay:
    """How weights come to replicas: as is said, or else as was recorded."""
    if setting.relay is not None:
        return setting.relay
    weights = _weights_s(setting.steps) if setting.steps is not None else 0.0
    return Relay(weights, 0.0, weights)


def _overlapping(workload: Workload, setting: Setting, course: Course, training: Training) -> Replayed:
    """Steps that overlap: each lasts from one update to the next."""
    step_s = np.diff(course.train_end_s, prepend=0.0)
    made = np.diff(course.ready_s, prepend=0.0)
    return Replayed(
        setting,
        step_s,
        {GENERATION: made, "after generation": training.parts_s + training.after_s},
        course.begin_s,
        course.end_s,
        course.replica,
        course.batch - course.begin_version,
        _tokens(workload),
        float(course.busy_s.sum()) / max(float(step_s.sum()) * len(np.unique(course.replica)), 1e-12),
    )


def _tokens(workload: Workload) -> float:
    return float(np.nan_to_num(workload.prompt).sum() + workload.response.sum())
