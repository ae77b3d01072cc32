"""Where a search begins: cuts and placements that people would try, with the loads of ranks evened out."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from scalana.detectors.pipeline.model.partition import smallest_maximum
from scalana.detectors.pipeline.model.schedules import stage_placement
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError, uniform_cut
from scalana.detectors.thresholds.limits import HEAVY_LAYER
from scalana.graphs.arrays.types import FloatArray, IntArray

CHUNKS = (1, 2, 3, 4, 6, 8)
"""Stages a rank that are tried."""


def even_loads(stages: Stages, work: FloatArray, ranks: int, most: int = 400) -> Stages:
    """The same stages with their borders moved as long as the squares of the ranks' loads become less."""
    sizes, rank, cut = stages.sizes.copy(), stages.rank, stages.cut.copy()
    load = np.bincount(stages.rank_of_layer, work, minlength=ranks)
    for _ in range(most):
        inner = cut[1:-1]
        # A border moves to the right (the left stage gains a layer) or to the left.
        right, left = work[np.minimum(inner, len(work) - 1)], work[inner - 1]
        apart = load[rank[1:]] - load[rank[:-1]]
        other = rank[1:] != rank[:-1]
        gain_right = np.where(other & (sizes[1:] > 1), right * (apart - right), 0.0)
        gain_left = np.where(other & (sizes[:-1] > 1), left * (-apart - left), 0.0)
        gains = np.stack([gain_right, gain_left])
        if not gains.size or gains.max() <= 1e-12 * load.max() ** 2:
            break
        way, k = (int(x) for x in np.unravel_index(gains.argmax(), gains.shape))
        moved = right[k] if way == 0 else left[k]
        source, target = (k + 1, k) if way == 0 else (k, k + 1)
        sizes[source] -= 1
        sizes[target] += 1
        load[rank[source]] -= moved
        load[rank[target]] += moved
        cut[k + 1] += 1 if way == 0 else -1
    return Stages(cut, rank)


def placements(ranks: int, chunks: int) -> list[IntArray]:
    """The usual ranks of stages: in a ring, and there and back."""
    names = ("loop", "v") if chunks > 1 else ("loop",)
    return [np.array(stage_placement(name, ranks, chunks), np.int64) for name in names]


def seeds(profile: LayerProfile, chunks: tuple[int, ...] = CHUNKS) -> list[Stages]:
    """Partitions and placements to begin with, each once; every rank has something to do in them."""
    work = profile.work_s
    found: dict[bytes, Stages] = {}
    for count in chunks:
        stages = profile.ranks * count
        if stages > profile.layers:
            break
        cuts = [smallest_maximum(work, stages)[0]]
        with suppress(ProfileError):
            cuts.append(uniform_cut(profile, stages))
        for rank in placements(profile.ranks, count):
            for cut in cuts:
                given = Stages(cut, rank)
                for one in (given, even_loads(given, work, profile.ranks)):
                    found.setdefault(one.key, one)
    return list(found.values())


def heavy_alone(profile: LayerProfile) -> list[Stages]:
    """The most expensive layer on the last rank, by itself, the others over the other ranks; none if it is small."""
    work = profile.work_s
    heavy = int(work.argmax())
    others = np.delete(np.arange(profile.layers), heavy)
    ranks = profile.ranks - 1
    if ranks < 1 or work[heavy] < HEAVY_LAYER * float(work.sum()) / profile.ranks:
        return []
    found = []
    for chunks in CHUNKS:
        if ranks * chunks > len(others):
            break
        cut, _ = smallest_maximum(work[others], ranks * chunks)
        for rank in placements(ranks, chunks):
            held = np.full(profile.layers, ranks, np.int64)
            held[others] = even_loads(Stages(cut, rank), work[others], ranks).rank_of_layer
            found.append(Stages.of_layers(held))
    return found


def largest_first(profile: LayerProfile) -> list[Stages]:
    """Stages of one size each to the rank with least to do, the most expensive first (Graham, 1969).

    Where layers are few and uneven, no ring or V is as even.
    """
    work = profile.work_s
    found: dict[bytes, Stages] = {}
    for count in (1, 2, 3, 4):
        begins = np.arange(0, profile.layers, count)
        if len(begins) < profile.ranks:
            break
        cost = np.add.reduceat(work, begins)
        load, rank = np.zeros(profile.ranks), np.zeros(len(begins), np.int64)
        for stage in np.argsort(-cost, kind="stable"):
            rank[stage] = load.argmin()
            load[rank[stage]] += cost[stage]
        held = np.repeat(rank, np.diff(np.append(begins, profile.layers)))
        if len(np.unique(held)) == profile.ranks:
            one = Stages.of_layers(held)
            found.setdefault(one.key, one)
    return list(found.values())
