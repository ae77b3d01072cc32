"""What loops wait for experts, by layer, and what earlier loads or a larger cache bring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.evidence import OtherLoads
from scalana.detectors.experts.load_model import Lookups, Plan, distances, misses
from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD
from scalana.detectors.thresholds.differences import DEAD_BAND, TRUSTED_REPLAY
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.detectors.thresholds.shares import NEARLY_ALL
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.weight_loads import Uses, WeightLoads

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
    slots: int | None
    """That the cache has; None where it does not keep what was used last."""
    others: list[OtherLoads]
    """The shortest first."""

    @property
    def pass_s(self) -> float:
        """What a pass takes."""
        return self.loop_s / max(self.passes, 1.0)


EXPERTS: SectionName[Experts] = SectionName("experts")


def experts_of(loads: WeightLoads) -> Experts | None:
    """What a run waits for experts; None where it looks up too few, or keeps all that it loads."""
    uses = loads.uses
    first_loads = len(np.unique(np.stack((uses.rank, uses.weight)), axis=1).T)
    if np.count_nonzero(uses.missed) < first_loads + SHOWS_THE_SPREAD:
        return None
    lanes = [uses.some(uses.lane == lane) for lane in np.unique(uses.lane).tolist()]
    ranks = np.unique(uses.rank)
    loop_s = sum(float(one.end_s[-1] - one.start_s[0]) for one in lanes) / len(ranks)
    passes = sum(len(np.unique(one.turn)) for one in lanes) / len(ranks)
    slots, others = _others(lanes, loads, passes * len(ranks) / len(lanes))
    exposed_s = weighted_count(uses.rank, uses.exposed_s(), int(ranks.max()) + 1)[ranks]
    return Experts(loads, _layers(loads), ranks, exposed_s, loop_s, passes, slots, others)


def _layers(loads: WeightLoads) -> list[LayerTime]:
    """Every layer, in order."""
    uses, count = loads.uses, len(loads.layers)
    amounts = (np.ones(len(uses)), uses.missed.astype(np.float64), uses.bytes, uses.load_s, uses.exposed_s())
    sums = np.stack([weighted_count(uses.layer, values, count) for values in amounts], axis=1).tolist()
    return [
        LayerTime(name, round(lookups), round(loaded), *rest)
        for name, (lookups, loaded, *rest) in zip(loads.layers, sums, strict=True)
    ]


def _others(lanes: list[Uses], loads: WeightLoads, passes: float) -> tuple[int | None, list[OtherLoads]]:
    """The room of the cache, and a pass with other loads, the shortest first, of the average thread; no loads where the
    model takes another time than the run."""
    models = [Lookups.of(one, np.zeros(len(one))) for one in lanes]
    measured_s = sum(float(one.end_s[-1] - one.start_s[0]) for one in lanes)
    slots = _slots(lanes) if loads.has_cache else None
    depths = _depths(len(loads.layers))

    def taken_s(plan: Plan, room: int | None = slots) -> float:
        return sum(one.seconds(plan, room) for one in models)

    modelled_s = {depth: taken_s(Plan(depth)) for depth in (0, *depths)}
    now = min(modelled_s, key=lambda depth: abs(modelled_s[depth] - measured_s))
    if abs(modelled_s[now] / measured_s - 1.0) > TRUSTED_REPLAY:
        return slots, []
    scale = measured_s / modelled_s[now] / len(lanes) / max(passes, 1.0)
    found = [OtherLoads(AHEAD, scale * modelled_s[depth], layers=depth) for depth in depths if depth > now]
    if slots is not None:
        more = min(slots * DOUBLED, max(len(np.unique(one.weight)) for one in lanes))
        found.append(OtherLoads(SLOTS, scale * taken_s(Plan(now), more), slots=more))
    return slots, _by_preference(found)


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


def _slots(lanes: list[Uses]) -> int | None:
    """With how much room a cache of those that were used last needs the loads that were needed; None where none does.

    One cache for all layers is tried: its room is that from which on most lookups are as they were.
    """
    distance = [distances(one.weight) for one in lanes]
    all_, missed = np.concatenate(distance), np.concatenate([one.missed for one in lanes])
    tried = np.unique(all_[all_ >= 0]) + 1
    if not len(tried):
        return None
    same = [float((misses(all_, int(slots)) == missed).mean()) for slots in tried.tolist()]
    best = int(np.argmax(same))
    return int(tried[best]) if same[best] >= NEARLY_ALL else None
