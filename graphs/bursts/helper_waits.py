"""Where locations wait while another thread or child process of their rank works: by that work.

Time in which a location waits for such a helper is the helper's work. What the location would have done is not lost:
of every activity of helpers it is known at which place most was waited for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Activities, WaitsForHelpers

TOGETHER_NS = 100_000_000
"""Waits for one helper at one place within so long are one row."""


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
    interpreter: BoolArray
    """Whether it may be for the interpreter's lock: the location is in no function that waits, and the helper is a
    thread of its process that runs ``[waits]``."""


@dataclass(slots=True)
class HeldUp:
    """Waiting for helpers, one row a pair of places and a short time."""

    work: IntArray
    """Place of what the helper does, in the catalogue ``[rows]``."""
    place: IntArray
    """Place at which locations wait ``[rows]``."""
    seconds: FloatArray
    """``[rows]``"""
    interpreter_s: FloatArray
    """Of these, what may be waiting for the interpreter's lock ``[rows]``."""
    number: IntArray
    """Of the short time, :data:`TOGETHER_NS` each, on the aligned axis ``[rows]``."""
    seen: HelperWaits | None = None
    """The waits that it is made of, where these are of use."""

    @classmethod
    def of(cls, waits: HelperWaits) -> HeldUp:
        """Add up the waits of one pair and one short time."""
        interpreter_s = np.where(waits.interpreter, waits.seconds, 0.0)
        number = (waits.since_ns + waits.until_ns) // (2 * TOGETHER_NS)
        return cls(waits.work, waits.place, waits.seconds, interpreter_s, number)._summed()

    @classmethod
    def joined(cls, parts: Sequence[HeldUp]) -> HeldUp:
        """Several as one."""
        return cls(
            np.concatenate([part.work for part in parts]),
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.seconds for part in parts]),
            np.concatenate([part.interpreter_s for part in parts]),
            np.concatenate([part.number for part in parts]),
        )._summed()

    def by_pair(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Work and place of each pair, and its seconds at any time ``[pairs]``."""
        number, first = number_columns(self.work, self.place)
        return self.work[first], self.place[first], weighted_count(number, self.seconds, len(first))

    def _summed(self) -> HeldUp:
        number, first = number_columns(self.work, self.place, self.number)
        seconds, interpreter_s = (
            weighted_count(number, column, len(first)) for column in (self.seconds, self.interpreter_s)
        )
        return HeldUp(self.work[first], self.place[first], seconds, interpreter_s, self.number[first])


def add_held_up(activities: Activities, vertex: IntArray, line: IntArray, parts: Sequence[HeldUp]) -> None:
    """Tell the activities of helpers where most is waited for them. ``vertex`` and ``line`` are those of all places
    ``[places]``."""
    activities.waits_vertex = np.full(len(activities), -1)
    activities.waits_line = np.zeros(len(activities), np.int64)
    if not parts:
        return
    whole = HeldUp.joined(parts)
    numbers = {
        (int(activities.vertex[number]), int(activities.line[number])): number
        for number in np.flatnonzero(activities.helper).tolist()
    }
    work, place, seconds = whole.by_pair()
    for row in np.argsort(seconds, kind="stable").tolist():  # the most comes last
        by, at = int(work[row]), int(place[row])
        number = numbers.get((int(vertex[by]), int(line[by])), -1)
        if number >= 0:
            activities.waits_vertex[number], activities.waits_line[number] = vertex[at], line[at]
    activity = np.full(len(vertex), -1, np.int64)
    for by in np.unique(whole.work).tolist():
        activity[by] = numbers.get((int(vertex[by]), int(line[by])), -1)
    known = np.flatnonzero(activity[whole.work] >= 0)
    at_place = whole.place[known]
    activities.waits = WaitsForHelpers(
        activity[whole.work[known]],
        vertex[at_place],
        line[at_place],
        whole.seconds[known],
        whole.interpreter_s[known],
        to_seconds(whole.number[known] * TOGETHER_NS + TOGETHER_NS // 2),
    )
