"""Moments that follow each other, and when they come if something between them takes less time.

A max-plus recurrence, as :mod:`scalana.detectors.whatif.replay` has it for the calls of ranks: a moment comes when the
last of those that it follows has, and what lies between is done. These moments are of hosts and devices alike, and of a
stretch of the run that repeats itself: moments at its begin follow some of the round before. What the run would take
with a change is what a round takes once the change has been there for some rounds: hosts that run ahead of their
devices, or fall behind, then do so by as much as they will.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Links:
    """Pairs of moments of which one follows the other, in any order."""

    later: IntArray
    """``[links]``"""
    earlier: IntArray
    """``[links]``"""
    seconds: FloatArray
    """What lies between at least ``[links]``."""
    of_last_round: BoolArray
    """Whether it follows that moment of the round before ``[links]``."""


@dataclass(frozen=True, slots=True)
class Moments:
    """A round of a run."""

    at_s: FloatArray
    """When each moment came ``[moments]``; none follows a later one of the same round."""
    round_s: float
    """What a round takes."""
    first: IntArray
    """Start of the links of each moment to those that it follows ``[moments + 1]``."""
    links: Links
    """In the order of the later moments; their seconds give back when each moment came."""
    decisive: IntArray
    """Of each moment the link that it came by, -1 for none ``[moments]``."""

    @classmethod
    def of(cls, at_s: FloatArray, tie: IntArray, round_s: float, links: Links) -> tuple[Moments, IntArray]:
        """Order moments and links, those left out that clocks contradict; returns where each link is now, -1 for those
        that are left out ``[links]``. Moments at one time are in the order of ``tie`` ``[moments]``.

        What a moment came later than its links explain goes to the last of these; what they are too long by from each.
        """
        order = np.lexsort((tie, at_s))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        later, earlier = place[links.later], place[links.earlier]
        kept = np.flatnonzero((earlier < later) | links.of_last_round)
        kept = kept[np.argsort(later[kept], kind="stable")]
        where = np.full(len(later), -1, np.int64)
        where[kept] = np.arange(len(kept))
        at_s, later, earlier = at_s[order], later[kept], earlier[kept]
        behind = links.of_last_round[kept]
        since_s = at_s[earlier] - np.where(behind, round_s, 0.0)
        seconds = np.minimum(links.seconds[kept], at_s[later] - since_s)
        first = np.searchsorted(later, np.arange(len(at_s) + 1))
        decisive = _last_of(later, since_s + seconds, first)
        some = np.flatnonzero(decisive >= 0)
        last = decisive[some]
        seconds[last] = at_s[some] - since_s[last]
        return cls(at_s, round_s, first, Links(later, earlier, seconds, behind), decisive), where

    def changed_round_s(self, removed_s: FloatArray) -> float:
        """What a round takes without some of the seconds of links; without a link where that is infinite
        ``[links]``."""
        before_s, now_s = self._last_rounds(self.links.seconds - removed_s)
        return max(float((now_s - before_s).max(initial=0.0)), 0.0)

    def shortened(self, removed_s: FloatArray) -> Moments:
        """The same without some of the seconds of links ``[links]``, as a round is once that has been so for some
        rounds."""
        links = replace(self.links, seconds=self.links.seconds - removed_s)
        before_s, now_s = self._last_rounds(links.seconds)
        since_s = np.where(links.of_last_round, before_s[links.earlier], now_s[links.earlier])
        decisive = _last_of(links.later, since_s + links.seconds, self.first)
        round_s = max(float((now_s - before_s).max(initial=0.0)), 0.0)
        return Moments(now_s, round_s, self.first, links, decisive)

    def _last_rounds(self, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """When moments come in the last two of some rounds, with other seconds of links ``[moments]`` each: the change
        comes, it spreads to all ranks and devices, and these rounds are looked at."""
        before_s, now_s = self.at_s - self.round_s, np.empty(len(self.at_s))
        for _ in range(4):
            _follow((self.first, self.links.earlier, self.links.of_last_round), seconds, self.round_s, before_s, now_s)
            before_s, now_s = now_s, before_s
        return now_s, before_s

    def critical_s(self) -> FloatArray:
        """The seconds of each link on the critical path of a round: back from its last moment, always along what came
        last, for as long as a round takes ``[links]``."""
        path_s = np.zeros(len(self.links.seconds))
        if len(self.at_s):
            links, last = (self.decisive, self.links.earlier, self.links.of_last_round), int(np.argmax(self.at_s))
            _walk(links, self.at_s, self.round_s, last, path_s)
        return path_s


def _last_of(later: IntArray, arrival_s: FloatArray, first: IntArray) -> IntArray:
    """Of each moment the link that comes last, -1 for none ``[moments]``; links in the order of ``later``."""
    found = np.full(len(first) - 1, -1, np.int64)
    by_arrival = np.lexsort((arrival_s, later))
    some = np.flatnonzero(np.diff(first) > 0)
    found[some] = by_arrival[first[some + 1] - 1]
    return found


@compiled
def _follow(links, seconds, round_s, before_s, now_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill in when the moments of a round come, after those of the round before."""
    first, earlier, of_last_round = links
    for moment in range(len(now_s)):
        latest_s = -np.inf
        for link in range(first[moment], first[moment + 1]):
            since_s = before_s[earlier[link]] if of_last_round[link] else now_s[earlier[link]]
            latest_s = max(latest_s, since_s + seconds[link])
        now_s[moment] = latest_s if latest_s > -np.inf else before_s[moment] + round_s


@compiled
def _walk(links, at_s, round_s, moment, path_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill in the seconds of links on the way back from a moment, over one round."""
    decisive, earlier, of_last_round = links
    rounds = 0
    end_s = at_s[moment] - round_s
    for _ in range(2 * len(at_s) + 2):
        link = decisive[moment]
        if link < 0:
            return
        now_s = at_s[moment] - rounds * round_s
        moment, rounds = earlier[link], rounds + (1 if of_last_round[link] else 0)
        since_s = max(at_s[moment] - rounds * round_s, end_s)
        path_s[link] += max(now_s - since_s, 0.0)
        if since_s <= end_s:
            return
