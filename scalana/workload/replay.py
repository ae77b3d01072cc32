"""A workload replayed as a simulation: on any number of replicas, by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.rl.decode import longest_first
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.workload.costs import Decode
from scalana.workload.errors import WorkloadError
from scalana.workload.rollout_loop import Costs, Course, Rules, Work, run
from scalana.workload.step_costs import GENERATION, StepCosts, lengths_of, spent
from scalana.workload.trajectories import Workload

AWAITED = 0.95
"""Part of the trajectories under way that a step awaits where the rest is carried over."""


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


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("recorded", "as it was", "recorded"),
        Policy("batch", "equal parts of a step", "even"),
        Policy("fifo", "to the replica with the fewest"),
        Policy("longest", "first, lengths known", "longest"),
        Policy(
            "partial",
            "ends at 95 %, the rest goes on",
            behind=None,
            by_step=False,
            in_turn=False,
            carried=True,
        ),
        Policy("one-step-off", "generates while it trains", behind=1, apart=True),
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
class Setting:
    """On what, and how, a workload is replayed."""

    policy: str
    replicas: int
    decode: Decode
    steps: StepCosts | None = None
    """None: generation alone."""
    staleness: int = 4
    """Updates that may be lacking when a trajectory is begun, where the policy leaves it open."""


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
    policy, steps = POLICIES[setting.policy], workload.steps
    if setting.replicas < 1:
        raise WorkloadError(f"--replicas {setting.replicas}: must be at least 1")
    pinned = _pinned(workload, policy, setting.replicas)
    tail_s = np.zeros(steps) if not policy.apart and not policy.carried else _tail_s(workload, setting)
    work = Work(
        workload.turns.first,
        workload.turns.read,
        workload.turns.tokens,
        _tools_s(workload, policy),
        workload.step,
        pinned,
    )
    course = run(work, _costs(setting), _rules(workload, policy, setting), tail_s)
    if course is None:
        raise WorkloadError(f"--staleness {setting.staleness}: nothing can begin; allow at least 0")
    if policy.apart or policy.carried:
        return _overlapping(workload, setting, course, tail_s)
    return _in_turn(workload, setting, course)


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
    )


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


def _in_turn(workload: Workload, setting: Setting, course: Course) -> Replayed:
    """Steps one after the other, each phase of all processes behind the one before."""
    costs = setting.steps
    ranks = max(setting.replicas, costs.ranks if costs is not None and setting.policy == "recorded" else 0)
    begins = np.concatenate(([0.0], course.train_end_s[:-1]))
    made = np.zeros((ranks, workload.steps))
    np.maximum.at(made, (course.replica, workload.step), course.end_s - begins[workload.step])
    phases = {GENERATION: made}
    meets, rest = frozenset({GENERATION}), 0.0
    if costs is not None:
        verifier = _by_replica(workload, course.replica, np.nan_to_num(workload.verifier_s), ranks)
        tokens = _trained(workload, course.replica, costs, ranks)
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


def _tail_s(workload: Workload, setting: Setting) -> FloatArray:
    """What each batch takes when its trajectories are there ``[steps]``: trained on by as many processes as were
    recorded, or as there are replicas."""
    costs = setting.steps
    if costs is None:
        return np.zeros(workload.steps)
    ranks = costs.ranks
    tokens = np.bincount(workload.step, workload.response + np.nan_to_num(workload.prompt)) / ranks
    phases = spent(costs, np.repeat(tokens[None, :], ranks, axis=0), np.zeros((ranks, workload.steps)), ranks)
    return lengths_of(phases, costs.meets) + max(costs.rest_s, 0.0) if phases else np.zeros(workload.steps)


def _overlapping(workload: Workload, setting: Setting, course: Course, tail_s: FloatArray) -> Replayed:
    """Steps that overlap: each lasts from one update to the next."""
    step_s = np.diff(course.train_end_s, prepend=0.0)
    made = np.diff(course.ready_s, prepend=0.0)
    return Replayed(
        setting,
        step_s,
        {GENERATION: made, "after generation": tail_s},
        course.begin_s,
        course.end_s,
        course.replica,
        course.batch - course.begin_version,
        _tokens(workload),
        float(course.busy_s.sum()) / max(float(step_s.sum()) * len(np.unique(course.replica)), 1e-12),
    )


def _tokens(workload: Workload) -> float:
    return float(np.nan_to_num(workload.prompt).sum() + workload.response.sum())
