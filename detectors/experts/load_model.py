"""A model of a thread that looks up experts, one after the other, and of a link over which they are loaded.

The link loads one after the other, each as long as it took. A lookup waits until its load is done. Loads can be begun
before the lookup: when an earlier layer looks up its first expert, or when a draft model begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.experts.weight_loads import Uses


@dataclass(frozen=True, slots=True)
class Plan:
    """When experts are loaded."""

    ahead: int = 0
    """When a layer looks up its first expert, all of its own are loaded, then those of the next layers, this many; 0:
    each at its lookup."""
    in_draft: bool = False
    """Whether those of all layers are loaded from when the draft model begins."""


@dataclass(frozen=True, slots=True)
class Room:
    """A cache that keeps the experts that were used last."""

    slots: int
    """Experts that it has room for."""
    by_layer: bool = False
    """Whether each layer has such a cache."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a thread does with experts, in order; columns are ``[uses]``."""

    before_s: FloatArray
    """From the end of the lookup before to this one."""
    draft_s: FloatArray
    """From when the draft model begins to the first lookup of the pass."""
    own_s: FloatArray
    """What each lookup takes without waiting."""
    load_s: FloatArray
    """What a load of the expert takes: as long as it took, or the mean of the loads where it was there."""
    missed: BoolArray
    weight: IntArray
    layer: IntArray
    group: IntArray
    """Number of the layer and the pass that it is in."""
    turn: IntArray

    @staticmethod
    def of(uses: Uses, draft_s: FloatArray) -> Lookups:
        """Those of one thread; ``draft_s`` are as above ``[uses]``."""
        before_s = np.maximum(uses.start_s[1:] - uses.end_s[:-1], 0.0)
        changes = (np.diff(uses.layer) != 0) | (np.diff(uses.turn) != 0)
        group = np.append(0, np.cumsum(changes)).astype(np.int64)
        mean_s = float(uses.load_s[uses.missed].mean()) if uses.missed.any() else 0.0
        return Lookups(
            np.append(0.0, before_s),
            draft_s,
            uses.seconds - uses.exposed_s(),
            np.where(uses.missed, uses.load_s, mean_s),
            uses.missed,
            uses.weight,
            uses.layer,
            group,
            uses.turn,
        )

    def seconds(self, plan: Plan, room: Room | None = None) -> float:
        """What all of it takes, from the first lookup to the end of the last one. O(uses log uses).

        Args:
            plan: when experts are loaded.
            room: of the cache; None where the lookups that needed a load in the run need one, and no others.
        """
        count = len(self.weight)
        begun_at = self._begun_at(plan)
        order = np.argsort(begun_at, kind="stable")
        queue = [*zip(begun_at[order].tolist(), order.tolist(), strict=True), (count, -1)]
        weight = (np.arange(count) if room is None else self.weight).tolist()
        layer = (self.layer if room is not None and room.by_layer else np.zeros(count, np.int64)).tolist()
        cache = _Cache(count if room is None else room.slots)
        if room is None:
            cache.hold(np.flatnonzero(~self.missed).tolist())
        load_s, before_s, own_s = self.load_s.tolist(), self.before_s.tolist(), self.own_s.tolist()
        earlier_s = (self.draft_s if plan.in_draft else np.zeros(count)).tolist()
        now_s, place = 0.0, 0
        for use, before in enumerate(before_s):
            now_s += before
            while queue[place][0] == use:
                later = queue[place][1]
                cache.load((layer[later], weight[later]), load_s[later], now_s - earlier_s[use])
                place += 1
            cache.load((layer[use], weight[use]), load_s[use], now_s)
            now_s = max(now_s, cache.used((layer[use], weight[use]))) + own_s[use]
        return now_s

    def _begun_at(self, plan: Plan) -> IntArray:
        """The lookup with which the load for each one begins ``[uses]``."""
        if not plan.ahead and not plan.in_draft:
            return np.arange(len(self.group))
        first_of_group = np.searchsorted(self.group, np.arange(int(self.group.max(initial=0)) + 1))
        first_of_turn = np.searchsorted(self.turn, self.turn)
        if plan.in_draft:
            return np.asarray(first_of_turn)
        return np.maximum(first_of_group[np.maximum(self.group - plan.ahead, 0)], first_of_turn)


class _Cache:
    """What is loaded, those that were used last in each layer, and when it is there."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._link_s = 0.0
        self._there_s: dict[int, dict[int, float]] = {}
        """By layer, then by weight, those that were used last behind."""

    def hold(self, weights: Iterable[int]) -> None:
        """These are there from the beginning, in the only layer."""
        self._there_s[0] = dict.fromkeys(weights, 0.0)

    def load(self, weight: tuple[int, int], load_s: float, at_s: float) -> None:
        """Have something loaded over the link from then on, if it is not there or on its way."""
        there_s = self._there_s.setdefault(weight[0], {})
        if weight[1] not in there_s:
            self._link_s = there_s[weight[1]] = max(self._link_s, at_s) + load_s
            if len(there_s) > self._slots:
                del there_s[next(iter(there_s))]

    def used(self, weight: tuple[int, int]) -> float:
        """When something is there that is used now."""
        there_s = self._there_s[weight[0]]
        at_s = there_s.pop(weight[1], self._link_s)
        there_s[weight[1]] = at_s
        return at_s


def distances(weight: IntArray, cache: IntArray) -> IntArray:
    """How many others were looked up in the same cache since the last lookup of each, -1 for its first one ``[uses]``.
    A cache of those that were used last holds it if it has room for more."""
    recent: dict[int, list[int]] = {}
    result = np.full(len(weight), -1)
    for place, (one, where) in enumerate(zip(weight.tolist(), cache.tolist(), strict=True)):
        there = recent.setdefault(where, [])
        if one in there:
            result[place] = there.index(one)
            del there[result[place]]
        there.insert(0, one)
    return result


def misses(distance: IntArray, slots: int) -> BoolArray:
    """Which lookups a cache with so many slots cannot answer ``[uses]``."""
    return np.asarray((distance < 0) | (distance >= slots))
