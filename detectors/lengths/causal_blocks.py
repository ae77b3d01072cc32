"""What a causal mask leaves of the blocks of attention where each rank has one contiguous part of a sequence.

The queries of part ``i`` look at the keys of parts 0 to ``i``, and at half of the pairs with their own. So rank ``i``
of ``n`` computes ``i + 1/2`` blocks, and the last one ``2 - 1/n`` times as many as the average rank, at equal tokens.
Where keys and values come around a ring, the ranks from the ``k``-th on compute one block in round ``k``, and the
others wait. Where all keys and values are there, it is one line over the ranks, with next to nothing beside it.

With parts in **zigzag**, rank ``i`` has the ``i``-th of ``2 n`` parts from both ends. All ranks then compute as much:
half a block in each round, ``n/2`` in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.shares import EXPLAINED, MINOR, TOO_SMALL
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the ranks of a group compute in one slot, in blocks."""

    contiguous: FloatArray
    """``[ranks]``"""
    whole: FloatArray
    """How much of each round it is: 1/2 of the own block, or all ``[rounds]``."""

    @property
    def zigzag(self) -> float:
        """What each rank computes with parts in zigzag."""
        return 0.5 * float(self.whole.sum())


def patterns(ranks: int, in_rounds: bool) -> list[Blocks]:
    """All that a slot may be: a round, or the last round and the first one of the next attention; else all rounds."""
    part, rounds = np.arange(ranks), np.eye(ranks)
    of_round = np.where(part[:, None] >= part[None, :], 1.0, 0.0)
    of_round[:, 0] = 0.5
    together = [*rounds, rounds[0] + rounds[-1]] if in_rounds else [rounds.sum(axis=0)]
    return [Blocks(of_round @ whole, whole) for whole in together]


@dataclass(frozen=True, slots=True)
class CausalFit:
    """The work of a group as blocks of causal attention over contiguous parts."""

    known: list[Blocks]
    """What slots may be."""
    work_s: FloatArray
    """``[ranks, slots]``"""
    block_s: FloatArray
    """What a block takes in each slot ``[slots]``."""
    pattern: IntArray
    """Row in :attr:`known` of each slot ``[slots]``."""
    explained: float
    """Part of how ranks differ in the slots that this explains."""

    @classmethod
    def of(cls, work_s: FloatArray, in_rounds: bool) -> CausalFit | None:
        """The fit of what ranks work in slots ``[ranks, slots]``, where keys and values come in rounds or all at once.
        None where it is no such attention: blocks explain too little of it, or there is something beside them."""
        known = patterns(len(work_s), in_rounds)
        shape = np.stack([one.contiguous for one in known])
        block_s = shape @ work_s / (shape**2).sum(axis=1, keepdims=True)
        rest = ((work_s[None] - shape[:, :, None] * block_s[:, None]) ** 2).sum(axis=1)
        pattern = rest.argmin(axis=0)
        slots = np.arange(work_s.shape[1])
        differs = float(((work_s - work_s.mean(axis=0)) ** 2).sum())
        if differs <= TOO_SMALL * float((work_s**2).sum()):
            return None
        explained = 1.0 - float(rest[pattern, slots].sum()) / differs
        fit = cls(known, work_s, block_s[pattern, slots], pattern, explained)
        return fit if explained >= EXPLAINED and (fit._are_all_rounds() if in_rounds else fit._is_all()) else None

    def _are_all_rounds(self) -> bool:
        """Whether all rounds take equally long in sum."""
        rounds_s = self.block_s @ np.stack([self.known[one].whole for one in self.pattern.tolist()])
        usual_s = float(np.median(rounds_s))
        return EXPLAINED * usual_s <= rounds_s.min() and EXPLAINED * rounds_s.max() <= usual_s

    def _is_all(self) -> bool:
        """Whether ranks take next to nothing but what the mask leaves to them, by a line through what they take."""
        seconds, blocks = self.work_s.sum(axis=1), self.known[0].contiguous
        block_s, base_s = np.polyfit(blocks, seconds, 1).tolist()
        return abs(base_s) <= MINOR * float(seconds.mean()) and block_s > 0.0

    def mean_block_s(self) -> float:
        """What a block that is not masked takes on average; rounds that take hardly any time are none."""
        rounds = self.block_s[self.block_s > MINOR * float(self.block_s.max())]
        return float(rounds.mean())

    def zigzag_s(self) -> FloatArray:
        """What each rank would work in the slots with parts in zigzag ``[slots]``."""
        return self.block_s * np.array([self.known[one].zigzag for one in self.pattern.tolist()])
