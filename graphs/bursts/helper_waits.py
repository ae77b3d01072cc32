"""Where locations wait while another thread or child process of their rank works: by that work.

Time in which a location waits for such a helper is the helper's work. What the location would have done is not lost:
of every activity of helpers it is known at which place most was waited for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Activities


@dataclass(frozen=True, slots=True)
class HelperWaits:
    """Waits for helpers, one after the other."""

    burst: IntArray
    """In which burst ``[waits]``."""
    work: IntArray
    """Place of what the helper does, in the catalogue ``[waits]``."""
    place: IntArray
    """Place at which the location waits ``[waits]``."""
    seconds: FloatArray
    """``[waits]``"""
    since_ns: IntArray
    """``[waits]``"""
    until_ns: IntArray
    """``[waits]``"""


@dataclass(slots=True)
class HeldUp:
    """Waiting for helpers, one row a pair of places."""

    work: IntArray
    """Place of what the helper does, in the catalogue ``[rows]``."""
    place: IntArray
    """Place at which locations wait ``[rows]``."""
    seconds: FloatArray
    """``[rows]``"""
    seen: HelperWaits | None = None
    """The waits that it is made of, where these are of use."""

    @classmethod
    def of(cls, work: IntArray, place: IntArray, seconds: FloatArray, places: int) -> HeldUp:
        """Add up what is of one pair; all in the rows given, ``places`` is how many places there are."""
        key, number = np.unique(work * places + place, return_inverse=True)
        return cls(key // places, key % places, weighted_count(number, seconds, len(key)))


def add_held_up(activities: Activities, vertex: IntArray, line: IntArray, parts: Sequence[HeldUp]) -> None:
    """Tell the activities of helpers where most is waited for them. ``vertex`` and ``line`` are those of all places
    ``[places]``."""
    activities.waits_vertex = np.full(len(activities), -1)
    activities.waits_line = np.zeros(len(activities), np.int64)
    if not parts:
        return
    work, place, seconds = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("work", "place", "seconds")
    )
    whole = HeldUp.of(work, place, seconds, len(vertex))
    numbers = {
        (int(activities.vertex[number]), int(activities.line[number])): number
        for number in np.flatnonzero(activities.helper).tolist()
    }
    for row in np.argsort(whole.seconds, kind="stable").tolist():  # the most comes last
        by, at = int(whole.work[row]), int(whole.place[row])
        number = numbers.get((int(vertex[by]), int(line[by])), -1)
        if number >= 0:
            activities.waits_vertex[number], activities.waits_line[number] = vertex[at], line[at]
