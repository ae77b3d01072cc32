"""The numbering of everything that lateness can fall on, so that one integer names it in arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.timeline import Timeline


class TargetKind(IntEnum):
    """What a share of a wait can fall on."""

    OWN = 0
    """Own work: an activity."""
    TRANSFER = 1
    """The part of a communication call that is not waiting; by the vertex of the call."""
    UNRESOLVED = 2
    """Late, cause not resolved; by the vertex of the call that came late."""
    CARRIED_IN = 3
    """Late already when its record begins."""
    WAIT = 4
    """A wait of the late rank itself; by wait group. Handed on, never final."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Target numbers: activities, then transfers, then unresolved (both by vertex), carried in, then wait groups."""

    activities: int
    vertices: int

    @classmethod
    def of(cls, timeline: Timeline) -> Numbering:
        """Return the numbering for a timeline's activities and vertices."""
        highest = max(int(timeline.calls.vertex.max(initial=-1)), int(timeline.activities.vertex.max(initial=-1)))
        return cls(len(timeline.activities), highest + 1)

    @property
    def transfer(self) -> int:
        """First number of the transfers."""
        return self.activities

    @property
    def unresolved(self) -> int:
        """First number of the unresolved."""
        return self.activities + self.vertices

    @property
    def carried_in(self) -> int:
        """The number of what was carried in."""
        return self.activities + 2 * self.vertices

    @property
    def wait(self) -> int:
        """First number of the wait groups."""
        return self.carried_in + 1

    def activity_mask(self, targets: IntArray) -> BoolArray:
        """Which activities are among some targets ``[activities]``."""
        mask = np.zeros(self.activities, dtype=bool)
        mask[targets[targets < self.activities]] = True
        return mask

    def describe(self, target: int) -> tuple[TargetKind, int]:
        """Return the kind of a target and its row: an activity, a vertex, -1, or a wait group."""
        if target < self.transfer:
            return TargetKind.OWN, target
        if target < self.unresolved:
            return TargetKind.TRANSFER, target - self.transfer
        if target < self.carried_in:
            return TargetKind.UNRESOLVED, target - self.unresolved
        if target == self.carried_in:
            return TargetKind.CARRIED_IN, -1
        return TargetKind.WAIT, target - self.wait
