"""All that is said of a plan, in one call: the plan, what it is compared with, its bound, the front, walls, engines."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.model.engines import ENGINES, Engine
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.bounds import Bound, lower_bound
from scalana.detectors.pipeline.plans.front import time_memory_front
from scalana.detectors.pipeline.plans.means import ENGINES_WITH_MEANS, Means, uniform_plan
from scalana.detectors.pipeline.plans.plan import Plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError, split_layer
from scalana.detectors.pipeline.plans.search import Effort, search
from scalana.detectors.thresholds.limits import HEAVY_LAYER, PIECE_OF_A_LAYER

SHARES = {"search": 0.5, "front": 0.2, "wall": 0.15, "means": 0.15}
"""Of the effort, where all is asked for."""


@dataclass(frozen=True)
class Asked:
    """What is wanted beside the plan."""

    engine: str = "torch"
    """By which the plan is replayed."""
    splits: bool = True
    """Whether a backward may be split."""
    front: bool = True
    wall: bool = True
    means: bool = True
    same_memory: bool = True
    """Whether the plan may take no more than what runs now (or the uniform plan), where no memory is given."""


@dataclass(frozen=True)
class Proposal:
    """A plan with what it is measured by."""

    profile: LayerProfile
    asked: Asked
    plan: Plan
    uniform: Plan | None
    """Interleaved 1F1B with the same number of blocks everywhere; None where it cannot be run."""
    bound: Bound
    front: tuple[Plan, ...]
    wall: Wall | None
    heavy: int | None
    """A layer that is a large part of what a rank does."""
    means: tuple[Means, ...]
    tried: int
    """Candidates that were scheduled for the plan."""
    ended_early: bool
    """Whether the time budget ended the search."""
    searched_s: float

    @property
    def now_s(self) -> float:
        """What the plan is compared with: the measured step, or that of the uniform plan; NaN where there is none."""
        if self.profile.now is not None:
            return self.profile.now.step_s
        return self.uniform.step_s if self.uniform is not None else float("nan")


def propose(profile: LayerProfile, asked: Asked, effort: Effort) -> Proposal:
    """Search, and compare.

    Raises:
        ProfileError: where nothing fits into memory, or the costs cannot be planned with.
    """
    profile.check()
    began = time.monotonic()
    engine = ENGINES[asked.engine]
    uniform = uniform_plan(profile, asked.engine)
    within = limited(profile, asked, uniform)
    parts = {"search": SHARES["search"]} | {
        name: SHARES[name] for name in ("front", "wall", "means") if getattr(asked, name)
    }
    total = sum(parts.values())

    def share(name: str) -> Effort:
        left = max(effort.budget_s - (time.monotonic() - began), 0.0)
        budget = effort.budget_s * parts[name] / total if name != list(parts)[-1] else left
        return replace(effort, actions=effort.actions * parts[name] / total, budget_s=min(budget, left))

    plan, state = search(within, engine, share("search"), _begin(profile), asked.splits)
    searched_s = time.monotonic() - began
    front = tuple(time_memory_front(within, plan, engine, share("front"))) if asked.front else ()
    wall = without_wall(within, engine, share("wall")) if asked.wall else None
    means: tuple[Means, ...] = ()
    if asked.means:
        every = share("means")
        count = len(ENGINES_WITH_MEANS)
        each = replace(every, actions=every.actions / count, budget_s=every.budget_s / count)
        means = tuple(of(within, each) for of in ENGINES_WITH_MEANS)
    return Proposal(
        within,
        asked,
        plan,
        uniform,
        lower_bound(profile),
        front,
        wall,
        heaviest(profile),
        means,
        state.tried,
        state.shortened or state.over,
        searched_s,
    )


def limited(profile: LayerProfile, asked: Asked, uniform: Plan | None) -> LayerProfile:
    """The profile with a limit of memory: what is given, or else what is used now, or by the uniform plan."""
    if profile.capacity is not None or not asked.same_memory:
        return profile
    if profile.now is not None and np.isfinite(profile.now.peak):
        return profile.within(profile.now.peak)
    return profile.within(uniform.peak) if uniform is not None else profile


def _begin(profile: LayerProfile) -> tuple[Stages, ...]:
    """What runs now, as a place to begin."""
    if profile.now is None:
        return ()
    held = np.array(profile.now.rank_of_layer, np.int64)
    return (Stages.of_layers(held),) if len(np.unique(held)) == profile.ranks else ()


@dataclass(frozen=True)
class Wall:
    """A layer that no cut gets around."""

    layer: int
    parts: int
    """Pieces into which it was split."""
    bound_s: float
    """The lower bound then."""
    plan: Plan
    """The best plan that was found then; its stages are those of the split layers."""
    profile: LayerProfile
    """The split layers."""


def heaviest(profile: LayerProfile) -> int | None:
    """The layer that costs a large part of what a rank does; None if there is none."""
    work = profile.work_s
    layer = int(work.argmax())
    return layer if work[layer] > HEAVY_LAYER * float(work.sum()) / profile.ranks else None


def without_wall(profile: LayerProfile, engine: Engine, effort: Effort, counts: tuple[int, ...] = ()) -> Wall | None:
    """What the best split of the heaviest layer brings; None where no layer is heavy.

    ``counts`` are numbers of pieces to try; otherwise one that makes small pieces, and half of it.
    """
    layer = heaviest(profile)
    if layer is None:
        return None
    work = profile.work_s
    many = int(
        np.clip(np.ceil(work[layer] / (PIECE_OF_A_LAYER * float(work.sum()) / profile.ranks)), 2, 2 * profile.ranks)
    )
    counts = counts or tuple(sorted({max(many // 2, 2), many}))
    each = replace(effort, actions=effort.actions / len(counts), budget_s=effort.budget_s / len(counts))
    found = []
    for parts in counts:
        split = split_layer(profile, layer, parts)
        try:
            plan, _ = search(split, engine, each)
        except ProfileError:
            continue
        found.append(Wall(layer, parts, lower_bound(split).step_s, plan, split))
    return min(found, key=lambda one: one.plan.step_s) if found else None
