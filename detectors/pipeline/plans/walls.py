"""When one layer is the wall: what splitting it over ranks would bring."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.model.engines import Engine
from scalana.detectors.pipeline.plans.bounds import lower_bound
from scalana.detectors.pipeline.plans.plan import Plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError, split_layer
from scalana.detectors.pipeline.plans.search import Effort, search
from scalana.detectors.thresholds.limits import HEAVY_LAYER, PIECE_OF_A_LAYER


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
