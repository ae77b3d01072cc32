"""What no plan beats, whatever its cut, placement and order; and the layer that is the wall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.plans.profile import LayerProfile
from scalana.detectors.thresholds.shares import NEARLY_ALL
from scalana.graphs.arrays.types import FloatArray


@dataclass(frozen=True)
class Bound:
    """Seconds that no step of these layers on these ranks is shorter than, as long as layers stay whole."""

    share_s: float
    """All work spread evenly, and the time before the first microbatch has come to each rank."""
    packed_s: float
    """All microbatches on the rank with most to do, were layers dealt out as evenly as whole ones can be."""
    journey_s: float
    """One microbatch there and back."""
    wall_s: float
    """All microbatches through the most expensive layer, and what comes before and after it."""
    wall: int
    """That layer."""

    @property
    def step_s(self) -> float:
        """The largest of them."""
        return max(self.share_s, self.packed_s, self.journey_s, self.wall_s)

    @property
    def by_wall(self) -> bool:
        """Whether a single layer decides the bound."""
        return self.wall_s >= self.step_s and self.wall_s > self.share_s / NEARLY_ALL


def lower_bound(profile: LayerProfile) -> Bound:
    """Messages take no time in it, and memory is not limited.

    The k-th rank to begin holds no layer before the k-th, so it waits for those before: the mean of these waits comes
    on top of the mean of all work.
    """
    seconds = profile.seconds + 0.0
    forward, back = seconds[Kind.F], np.minimum(seconds[Kind.I], seconds[Kind.B])
    work = profile.work_s
    count = profile.microbatches
    upto = np.concatenate([[0.0], np.cumsum(forward)])
    fill = upto[: profile.ranks].mean()
    share = float(work.sum()) / profile.ranks * count + float(fill)
    before, before_back = upto[:-1], np.cumsum(back) - back
    wall = before + np.maximum(work * count, (forward + back) * count + before_back)
    heaviest = int(wall.argmax())
    packed = count * _packed(work, profile.ranks)
    return Bound(share, packed, float((forward + back).sum()), float(wall[heaviest]), heaviest)


def _packed(work: FloatArray, ranks: int) -> float:
    """A rank has at least this much of a microbatch: of the ``k ranks + 1`` largest layers, one rank has ``k + 1``."""
    largest = np.sort(work)[::-1]
    counts = range(1, (len(work) - 1) // ranks + 1)
    return max((float(largest[k * ranks - k : k * ranks + 1].sum()) for k in counts), default=0.0)
