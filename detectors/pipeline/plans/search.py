"""The search: partition, placement and schedule together.

Rounds, each from the best of the one before: all seeds under some policies; the best assignments under all policies;
then annealing, which moves layers between ranks and changes the policy, the most promising ones longest. What a
candidate takes comes from list scheduling; the best are replayed as the engine would carry them out.

With the same seed of randomness the result is the same, unless the time budget ends the search before its last round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log

import numpy as np

from scalana.detectors.pipeline.model.engines import ENGINES, Engine
from scalana.detectors.pipeline.model.simulate import Deadlock
from scalana.detectors.pipeline.plans.assignment import Stages, stage_costs_of
from scalana.detectors.pipeline.plans.list_schedule import Listing, Policy, Split, Tie, Turn, list_schedule
from scalana.detectors.pipeline.plans.plan import Plan, make_plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError
from scalana.detectors.pipeline.plans.seeds import even_loads, heavy_alone, largest_first, seeds
from scalana.detectors.thresholds.limits import ACTIONS_PER_CANDIDATE, FINALISTS, TURNS_OF_ANNEALING


@dataclass(frozen=True)
class Effort:
    """How long a search goes on."""

    actions: float = 6e7
    """Actions that are scheduled in all, which bounds the work and not the seconds."""
    budget_s: float = np.inf
    """Seconds after which the best so far is taken."""
    seed: int = 0
    """Of randomness."""
    clock: Callable[[], float] = time.monotonic
    """What seconds are counted by."""


@dataclass(frozen=True)
class Candidate:
    """Stages with a policy."""

    stages: Stages
    policy: Policy
    step_s: float = np.inf
    """By list scheduling."""


@dataclass
class Search:
    """What is searched in, and how far it is."""

    profile: LayerProfile
    engine: Engine
    effort: Effort
    splits: bool = True
    """Whether a backward may be split."""
    fixed: bool = False
    """Whether stages stay on the ranks that they begin with."""
    random: random.Random = field(init=False)
    best: dict[bytes, Candidate] = field(default_factory=dict)
    """The best policy of each of the stages that were looked at in full."""
    tried: int = 0
    shortened: bool = False
    """Whether fewer candidates are looked at than the effort allows, for lack of time."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.effort.seed)
        self.began_s = self.effort.clock()
        self.mark = self.began_s, 0
        self.limits = self.profile.limits

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.left_s < 0

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self.effort.budget_s - (self.effort.clock() - self.began_s)

    def turns(self, share: float, of_rest: float) -> int:
        """How many candidates a round looks at: its share of the effort, or what its share of the time that is left
        allows, by how long those of the round before took."""
        profile = self.profile
        each = 3.0 * profile.microbatches * max(profile.ranks, profile.layers / 2) + ACTIONS_PER_CANDIDATE
        wanted = int(self.effort.actions * share / each)
        if self.effort.budget_s == np.inf:
            return wanted
        now = self.effort.clock()
        taken_s = (now - self.mark[0]) / max(self.tried - self.mark[1], 1)
        self.mark = now, self.tried
        possible = int(max(self.left_s, 0.0) * of_rest / max(taken_s, 1e-9))
        self.shortened = self.shortened or possible < wanted
        return min(wanted, possible)

    def schedule(self, stages: Stages, policy: Policy, give_up_s: float = np.inf) -> Listing:
        """The order by a policy."""
        costs = stage_costs_of(self.profile, stages, self.engine)
        return list_schedule(costs, self.profile.microbatches, self.limits, policy, give_up_s)

    def measure(self, candidate: Candidate, give_up_s: float = np.inf) -> Candidate:
        """The candidate with its step time; it is kept if it is the best of its stages."""
        self.tried += 1
        listing = self.schedule(candidate.stages, candidate.policy, give_up_s)
        found = replace(candidate, step_s=listing.makespan_s)
        key = found.stages.key
        if found.step_s < np.inf and (key not in self.best or found.step_s < self.best[key].step_s):
            self.best[key] = found
        return found

    def leaders(self, count: int) -> list[Candidate]:
        """The best so far, each with other stages."""
        return sorted(self.best.values(), key=lambda one: one.step_s)[:count]


BASIC = (
    Policy(),
    Policy(turn=Turn.BACKWARD),
    Policy(split=Split.NEVER),
    Policy(forward=Tie.OLDEST, backward=Tie.OLDEST, gap=0.0),
    Policy(ahead=1.1, gap=0.0, split=Split.WHERE_AWAITED),
    Policy(ahead=np.inf, reserve=0.0),
    Policy(ahead=3.0, turn=Turn.FORWARD, forward=Tie.OLDEST),
)
"""Policies under which every seed is tried."""
ROUNDS = ((8, 0.1), (6, 0.25), (3, 0.35), (1, 0.3))
"""Annealing: how many candidates, and their share of the actions."""


def search(
    profile: LayerProfile,
    engine: Engine = ENGINES["ideal"],
    effort: Effort | None = None,
    begin: tuple[Stages, ...] = (),
    splits: bool = True,
    fixed: bool = False,
) -> tuple[Plan, Search]:
    """The best plan that is found, and the search that found it.

    ``begin`` are stages to try as well; with ``fixed`` those alone are tried, and keep their ranks. ``splits`` says
    whether a backward may be split.

    Raises:
        ProfileError: where nothing fits into memory, or the costs cannot be planned with.
    """
    profile.check()
    state = Search(profile, engine, Effort() if effort is None else effort, splits, fixed)
    first = list(begin) + ([] if fixed else seeds(profile) + heavy_alone(profile) + largest_first(profile))
    for stages in first:
        for policy in BASIC:
            if state.best and state.over:
                break
            state.measure(Candidate(stages, policy if splits else replace(policy, split=Split.NEVER)))
    if not state.best:
        _make_room(state, first)
    chains, rest = state.leaders(ROUNDS[0][0]), 1.0
    for count, share in ROUNDS:
        turns = state.turns(share, share / rest)
        rest -= share
        # The ends of chains differ more than what one of them saw on its way.
        chains = sorted(chains, key=lambda one: one.step_s)[:count]
        chains = [anneal(state, one, max(turns // count, TURNS_OF_ANNEALING)) for one in chains]
    return _finish(state), state


def _make_room(state: Search, first: list[Stages]) -> None:
    """Look for stages that fit into memory at all.

    Raises:
        ProfileError: there are none, as far as was seen.
    """
    profile = state.profile
    need = profile.activation + profile.static
    for stages in first:
        state.measure(Candidate(even_loads(stages, need, profile.ranks), Policy(ahead=1.0)))
    if not state.best:
        least = float(need.sum()) / profile.ranks + profile.beside
        raise ProfileError(
            f"nothing fits into the memory of the ranks ({float(profile.limits.max()):.4g} {profile.unit}): "
            f"parameters and one microbatch alone take {least:.4g} per rank if spread evenly; allow more, or "
            "recompute activations (--recompute)"
        )


def anneal(state: Search, start: Candidate, turns: int) -> Candidate:
    """Simulated annealing from a candidate; the best that was seen."""
    now = best = start
    hot, cold = 0.01, 0.0003
    draw = state.random
    for turn in range(turns):
        if state.over:
            break
        if draw.random() < 0.25:
            policy = change_policy(now.policy, draw, state.splits)
            other = Candidate(now.stages, policy)
        else:
            moved = change_stages(now.stages, state.profile, draw, state.fixed)
            if moved is None:
                continue
            other = Candidate(moved, now.policy)
        heat = hot * (cold / hot) ** (turn / turns) * best.step_s
        threshold = now.step_s - heat * _log(draw)
        other = state.measure(other, give_up_s=threshold)
        if other.step_s <= threshold:
            now = other
            if now.step_s < best.step_s:
                best = now
    return best


def _log(draw: random.Random) -> float:
    """Of a random number above 0: how much worse is accepted, in units of heat."""
    return max(log(max(draw.random(), 1e-12)), -5.0)


def _finish(state: Search) -> Plan:
    """The best of the finalists as the engine would carry them out."""
    plans = []
    for one in state.leaders(FINALISTS):
        listing = state.schedule(one.stages, one.policy)
        for merge in (True, False):
            program = listing.program(merge)
            try:
                plans.append(make_plan(state.profile, one.stages, program, state.engine, "search"))
            except Deadlock:
                continue
    plans = [one for one in plans if (one.memory <= state.limits * (1 + 1e-9)).all()]
    if not plans:
        raise ProfileError("no plan that was found can be run by the engine; try another one")
    return min(plans, key=lambda one: one.step_s)


CHOICES: dict[str, tuple[object, ...]] = {
    "turn": tuple(Turn),
    "forward": tuple(Tie),
    "backward": tuple(Tie),
    "split": tuple(Split),
    "gap": (0.0, 0.25, 0.5, 0.75, 1.0),
    "patience": (0.0, 0.1, 0.25, 0.5),
    "ahead": (1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 3.0, np.inf),
    "reserve": (0.0, 0.5, 1.0, 2.0),
    "weights_first": (False, True),
}
"""What each field of a policy may be."""


def change_policy(policy: Policy, draw: random.Random, splits: bool) -> Policy:
    """A policy that differs in one or two fields."""
    names = [name for name in CHOICES if splits or name not in ("split", "gap", "weights_first")]
    for name in draw.sample(names, 1 if draw.random() < 0.7 else 2):
        others = [value for value in CHOICES[name] if value != getattr(policy, name)]
        policy = replace(policy, **{name: draw.choice(others)})  # type: ignore[arg-type]
    return policy


def change_stages(stages: Stages, profile: LayerProfile, draw: random.Random, fixed: bool) -> Stages | None:
    """Slightly different stages; None where a rank would have nothing to do. ``fixed`` keeps the ranks of stages."""
    kind = draw.random() * (0.6 if fixed else 1.0)
    if kind < 0.6:
        return _resized(stages, draw, one=kind < 0.3)
    held = stages.rank_of_layer
    if kind < 0.8:  # some layers to any rank, most often to one with little to do
        at = draw.randrange(len(held))
        held[at : at + draw.choice((1, 1, 2, 3, 4))] = _any_rank(stages, profile, draw)
    elif kind < 0.93 and stages.count > 1:  # two stages change places
        one, two = draw.sample(range(stages.count), 2)
        rank = stages.rank.copy()
        rank[one], rank[two] = rank[two], rank[one]
        held = np.repeat(rank, stages.sizes)
    else:  # a stage to another rank
        at = draw.randrange(stages.count)
        held[stages.cut[at] : stages.cut[at + 1]] = _any_rank(stages, profile, draw)
    if len(np.unique(held)) < profile.ranks:
        return None
    return Stages.of_layers(held)


def _resized(stages: Stages, draw: random.Random, one: bool) -> Stages | None:
    """A border moved, or a layer's worth moved from one stage to another through those between."""
    if stages.count < 2:
        return None
    source = draw.randrange(stages.count)
    if one:
        target = source + (draw.choice((-1, 1)) if 0 < source < stages.count - 1 else (1 if source == 0 else -1))
    else:
        target = draw.randrange(stages.count)
    sizes = stages.sizes
    count = draw.choice((1, 1, 1, 2))
    if source == target or sizes[source] <= count:
        return None
    sizes[source] -= count
    sizes[target] += count
    return Stages.sized(sizes, stages.rank)


def _any_rank(stages: Stages, profile: LayerProfile, draw: random.Random) -> int:
    if draw.random() < 0.3:
        return draw.randrange(profile.ranks)
    load = np.bincount(stages.rank_of_layer, profile.work_s, minlength=profile.ranks)
    some = draw.sample(range(profile.ranks), min(3, profile.ranks))
    return min(some, key=lambda each: load[each])
