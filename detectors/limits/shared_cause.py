"""What a cause that all ranks share is, as a finding; and what the recognisers of such causes have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, StepLimit
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.limits.causal_profile import CausalProfile, PlaceProfile
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation, named_places
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY, WORTH_IF_ONCE
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class SharedCause:
    """A cause that all ranks share."""

    finding: Finding
    extent: Extent
    """What of the run it explains."""
    is_even: bool
    """Whether all ranks spend as much, so that there is nothing of single ranks in it."""
    is_apart: bool = False
    """Whether it is said whatever else is said of these seconds."""


def is_shared(place: PlaceProfile) -> bool:
    """Whether every rank spends a good part there of what the middle one does."""
    return all_spend(place.seconds)


def is_even(place: PlaceProfile) -> bool:
    """Whether no rank spends more there than is ordinary."""
    return all_spend_alike(place.seconds)


def all_spend(seconds: FloatArray) -> bool:
    """Whether every rank spends a good part of what the middle one does ``[ranks]``."""
    least_s = float(seconds.min())
    return least_s > 0.0 and least_s >= MAJORITY * float(np.median(seconds))


def all_spend_alike(seconds: FloatArray) -> bool:
    """Whether no rank spends more than is ordinary ``[ranks]``."""
    return float(seconds.max()) <= (1.0 + ORDINARY) * float(np.median(seconds))


def is_worth_alike(seconds: FloatArray, profile: CausalProfile) -> bool:
    """Whether all ranks spend so much of a step that it is worth a finding though none spends more ``[ranks]``."""
    return all_spend(seconds) and is_worth(profile.step_s - float(np.median(seconds)), profile)


def is_worth(without_s: float, profile: CausalProfile) -> bool:
    """Whether a step that takes this instead is worth a finding."""
    return profile.step_s - without_s >= WORTH_IF_ONCE * profile.step_s


def step_limit(limit_s: float, half_s: float, without_s: float, profile: CausalProfile) -> StepLimit:
    """What of a step, or of a run without steps, something takes, and what is left without it."""
    step_s, run_s = (profile.step_s, None) if profile.has_steps else (None, profile.step_s)
    return StepLimit(limit_s, step_s, run_s, half_s, without_s)


def place_of_work(
    activities: IntArray, seconds: FloatArray, facts: Facts
) -> tuple[CodeLocation, list[tuple[int, float]]]:
    """The place that holds most of some work, and the activities that it is named for, with the seconds of each; of at
    least one. ``activities`` are rows of the timeline's, both are ``[activities of the work]``."""
    table = facts.timeline.activities
    leaves = [CodeLocation(TargetKind.OWN, int(table.vertex[number]), int(table.line[number])) for number in activities]
    named = named_places(leaves, [-1] * len(leaves), seconds.tolist(), facts.timeline, facts.psg)
    held: Counter[CodeLocation] = Counter()
    for place, amount in zip(named, seconds.tolist(), strict=True):
        held[place] += amount
    best = max(held, key=lambda place: held[place])
    work = zip(activities.tolist(), named, seconds.tolist(), strict=True)
    return best, [(number, amount) for number, place, amount in work if place == best]


def finding_of_place(kind: str, place: PlaceProfile, profile: CausalProfile, facts: Facts) -> Finding:
    """A finding about all that ranks spend at a place."""
    ranks = list(range(facts.timeline.ranks))
    lost_s = float(place.seconds.sum()) * profile.steps
    limit = step_limit(place.mean_s, place.half_s, place.without_s, profile)
    return replace(
        finding_at(place.location, ranks, lost_s, facts.psg, kind),
        saving_s=(profile.step_s - place.without_s) * profile.steps,
        evidence=Evidence(step_limit=limit, callers=callers(place.location.vertex, facts.psg)),
    )
