"""Efficiencies by size: the factors of the POP model, and how the time outside communication scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.efficiency.pop_factors import Efficiencies
from scalana.detectors.efficiency.run_efficiency import RunEfficiency
from scalana.detectors.runs.costs import RunCosts
from scalana.detectors.runs.scaling.ideal import Ideal
from scalana.graphs.arrays.types import BoolArray


@dataclass(frozen=True, slots=True)
class SizeEfficiency:
    """The efficiencies of one size: those of its run with the median parallel efficiency."""

    ranks: int
    factors: Efficiencies
    """Of the run without its set-up and its end."""
    computation: float
    """Computation scalability: ideal seconds outside communication by real ones; 1 at the smallest size."""

    @property
    def total(self) -> float:
        """Global efficiency: parallel efficiency x computation scalability."""
        return self.factors.parallel * self.computation


def size_efficiencies(runs: Sequence[RunCosts], ideal: Ideal, counts: BoolArray) -> tuple[SizeEfficiency, ...]:
    """Those of every size of which they are known, the smallest first. Runs that do not count are left out where their
    size has others: ``counts`` is ``[runs]``."""
    known = [(run.ranks, run.efficiency, bool(use)) for run, use in zip(runs, counts, strict=True) if run.efficiency]
    found: list[SizeEfficiency] = []
    base_s = 0.0
    for ranks in sorted({size for size, _, _ in known}):
        here = [(one, use) for size, one, use in known if size == ranks]
        middle = _middle([one for one, use in here if use] or [one for one, _ in here])
        rank_s = middle.outside_s / ranks
        base_s = base_s if found else rank_s
        smallest = found[0].ranks if found else ranks
        ideal_s = float(ideal.seconds(base_s, smallest, ranks).reshape(-1)[0])
        found.append(SizeEfficiency(ranks, middle.run, ideal_s / rank_s))
    return tuple(found)


def _middle(some: Sequence[RunEfficiency]) -> RunEfficiency:
    """The run with the median parallel efficiency, the lower one of two."""
    order = np.argsort([one.run.parallel for one in some], kind="stable")
    return some[int(order[(len(some) - 1) // 2])]
