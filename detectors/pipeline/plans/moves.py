"""Small changes of stages or of a policy, for annealing."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.list_schedule import Policy, Split, Tie, Turn
from scalana.detectors.pipeline.plans.profile import LayerProfile

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
