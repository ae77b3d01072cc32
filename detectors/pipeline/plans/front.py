"""Step time over memory: what more or less memory would bring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.model.engines import Engine
from scalana.detectors.pipeline.plans.plan import Plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError
from scalana.detectors.pipeline.plans.search import Effort, search

SHARES = (0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 2.0)
"""Of the memory that is given, or that the plan takes: where the front is looked at."""


def time_memory_front(profile: LayerProfile, plan: Plan, engine: Engine, effort: Effort) -> list[Plan]:
    """Plans of which none is both slower and larger than another, the smallest first; ``plan`` is one to begin with.

    ``effort`` is for all of them together.
    """
    limit = float(np.min(profile.limits))
    base = plan.peak if limit == np.inf else limit
    each = replace(effort, actions=effort.actions / len(SHARES), budget_s=effort.budget_s / len(SHARES))
    plans, known = [plan], plan.stages
    for share in sorted(SHARES, reverse=True):
        try:
            found, _ = search(profile.within(share * base), engine, each, (plan.stages, known))
        except ProfileError:
            continue
        known = found.stages
        plans.append(found)
    return undominated(plans)


def undominated(plans: list[Plan]) -> list[Plan]:
    """Those that are not both slower and larger than another, the smallest first."""
    kept: list[Plan] = []
    for one in sorted(plans, key=lambda each: (each.peak, each.step_s)):
        if not kept or one.step_s < kept[-1].step_s * (1 - 1e-6):
            kept.append(one)
    return kept
