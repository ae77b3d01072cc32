"""What loops wait for experts, by layer, and what earlier loads or a larger cache bring."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import OtherLoads
from scalana.detectors.experts.load_model import Lookups, Plan, Room, distances, misses
from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD
from scalana.detectors.thresholds.differences import DEAD_BAND, TRUSTED_REPLAY
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.detectors.thresholds.shares import NEARLY_ALL
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.experts.drafting import Drafting
from scalana.graphs.spans.experts.weight_loads import Uses, WeightLoads

AHEAD, IN_DRAFT, SLOTS = "ahead", "in-draft", "more-slots"
"""Loads some layers ahead, those of all layers during the draft phase, and a larger cache."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The experts of one layer, of all ranks."""

    name: str
    lookups: int
    loads: int
    bytes: float
    load_s: float
    exposed_s: float


@dataclass(frozen=True, slots=True)
class Experts:
    """What a run waits for experts."""

    loads: WeightLoads
    layers: list[LayerTime]
    ranks: IntArray
    """Those that look experts up ``[ranks]``."""
    exposed_s: FloatArray
    """Of each of these ``[ranks]``."""
    loop_s: float
    """From the first lookup to the end of the last one, of an average rank."""
    passes: float
    """Through the layers, of an average rank."""
    room: Room | None
    """Of the cache; None where it does not keep what was used last."""
    others: list[OtherLoads]
    """The shortest first."""
    drafting: Drafting | None
    """None where no model drafts tokens."""

    @property
    def pass_s(self) -> float:
        """What a pass takes."""
        return self.loop_s / max(self.passes, 1.0)


EXPERTS: SectionName[Experts] = SectionName("experts")


def experts_of(loads: WeightLoads, drafting: Drafting | None = None) -> Experts | None:
    """What a run waits for experts; None where it looks up too few, or keeps all that it loads."""
    uses = loads.uses
    first_loads = len(np.unique(np.stack((uses.rank, uses.weight)), axis=1).T)
    if np.count_nonzero(uses.missed) < first_loads + SHOWS_THE_SPREAD:
        return None
    threads = [uses.lane == lane for lane in np.unique(uses.lane).tolist()]
    lanes = [uses.some(mine) for mine in threads]
    draft_s = np.zeros(len(uses)) if drafting is None else drafting.draft_s
    models = [Lookups.of(one, draft_s[mine]) for one, mine in zip(lanes, threads, strict=True)]
    ranks = np.unique(uses.rank)
    loop_s = sum(float(one.end_s[-1] - one.start_s[0]) for one in lanes) / len(ranks)
    passes = sum(len(np.unique(one.turn)) for one in lanes) / len(ranks)
    room = _room(lanes) if loads.has_cache else None
    others = _others(models, loop_s * len(ranks), room, len(loads.layers), drafting is not None)
    exposed_s = weighted_count(uses.rank, uses.exposed_s(), int(ranks.max()) + 1)[ranks]
    return Experts(loads, _layers(loads), ranks, exposed_s, loop_s, passes, room, others, drafting)


def _layers(loads: WeightLoads) -> list[LayerTime]:
    """Every layer, in order."""
    uses, count = loads.uses, len(loads.layers)
    amounts = (np.ones(len(uses)), uses.missed.astype(np.float64), uses.bytes, uses.load_s, uses.exposed_s())
    sums = np.stack([weighted_count(uses.layer, values, count) for values in amounts], axis=1).tolist()
    return [
        LayerTime(name, round(lookups), round(loaded), *rest)
        for name, (lookups, loaded, *rest) in zip(loads.layers, sums, strict=True)
    ]


def _others(
    models: list[Lookups], measured_s: float, room: Room | None, layers: int, has_draft: bool
) -> list[OtherLoads]:
    """A pass with other loads, the shortest first; none where the model takes another time than the run."""

    def taken_s(plan: Plan, room: Room | None) -> float:
        return sum(one.seconds(plan, room) for one in models)

    plans = [Plan(depth) for depth in (0, *_depths(layers))] + ([Plan(in_draft=True)] if has_draft else [])
    modelled_s = [taken_s(plan, room) for plan in plans]
    now = min(range(len(plans)), key=lambda place: abs(modelled_s[place] - measured_s))
    if abs(modelled_s[now] / measured_s - 1.0) > TRUSTED_REPLAY:
        return []
    passes = sum(len(np.unique(one.turn)) for one in models)
    scale = measured_s / modelled_s[now] / max(passes, 1)
    found = [
        OtherLoads(IN_DRAFT if plan.in_draft else AHEAD, scale * plan_s, layers=plan.ahead)
        for plan, plan_s in zip(plans[now + 1 :], modelled_s[now + 1 :], strict=True)
    ]
    weights = max(int(one.weight.max()) + 1 for one in models)
    if room is not None and room.by_layer:
        weights = max(len(np.unique(one.weight[one.layer == layer])) for one in models for layer in range(layers))
    if room is not None and room.slots < weights:
        more = replace(room, slots=min(room.slots * DOUBLED, weights))
        found.append(OtherLoads(SLOTS, scale * taken_s(plans[now], more), slots=more.slots))
    return _by_preference(found)


def _by_preference(found: list[OtherLoads]) -> list[OtherLoads]:
    """The shortest first; of those that are about as short, that which needs least memory."""
    best_s = min((one.pass_s for one in found), default=0.0)

    def place(one: OtherLoads) -> tuple[float, bool, int]:
        as_good = one.pass_s <= (1.0 + DEAD_BAND) * best_s
        return best_s if as_good else one.pass_s, one.change == SLOTS, one.layers

    return sorted(found, key=place)


def _depths(layers: int) -> list[int]:
    """Layers ahead that are tried."""
    depths = [1] if layers > 1 else []
    while depths and depths[-1] * DOUBLED < layers:
        depths.append(depths[-1] * DOUBLED)
    return depths


def _room(lanes: list[Uses]) -> Room | None:
    """With how much room a cache of those that were used last needs the loads that were needed: one for all layers, or
    one for each; None where neither does."""
    missed = np.concatenate([one.missed for one in lanes])
    best, most = None, NEARLY_ALL
    for by_layer in (False, True):
        caches = [one.layer if by_layer else np.zeros(len(one), np.int64) for one in lanes]
        distance = np.concatenate([distances(one.weight, cache) for one, cache in zip(lanes, caches, strict=True)])
        for slots in (np.unique(distance[distance >= 0]) + 1).tolist():
            same = float((misses(distance, slots) == missed).mean())
            if same > most:
                best, most = Room(slots, by_layer), same
    return best
