"""Loaders that never rest: who works faster next to one only waits longer for its batches.

A rank that waits for nearly every batch gets them as its workers make them, whatever it does in between. What is taken
out of its own work goes into the wait; what is taken out of the work of its workers shortens a step, down to what the
rank itself takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.facts import Facts
from scalana.detectors.limits.data.loading_work import loading_work
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, NEXT_TO_NOTHING
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.metrics import burst_locations, own_by_rank
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class LoaderPace:
    """Ranks whose workers never rest."""

    steps: int
    bound: BoolArray
    """Which ranks these are ``[ranks]``."""
    step_s: FloatArray
    """What a step of each rank takes, and so long its workers need for the batches of one ``[ranks]``."""
    wait_s: FloatArray
    """What of that it waits for them ``[ranks]``."""
    loading: BoolArray
    """Which kinds of work are those of workers ``[activities]``."""
    loading_s: FloatArray
    """What main threads wait for these in a step ``[ranks]``."""

    @classmethod
    def of(cls, facts: Facts) -> LoaderPace | None:
        """Those of a run; None where there are none."""
        timeline, waits, stretch = facts.timeline, facts.data_waits, facts.stretch
        if waits is None or stretch is None or not (waits.workers > 0).any():
            return None
        activities, seconds = loading_work(waits, facts)
        helper = timeline.activities.helper[activities]
        if float(seconds[helper].sum()) < MAJORITY * float(seconds.sum()):
            return None  # batches are there, and it is their way here that takes the time
        bound = (waits.workers > 0) & (waits.often(NEXT_TO_NOTHING) >= NEARLY_ALL)
        loading = np.zeros(len(timeline.activities), np.bool_)
        loading[activities[helper]] = True
        inside_s = stretch.of_main(np.where(loading[timeline.own.activity], timeline.own.seconds, 0.0), timeline)
        loading_s = own_by_rank(timeline, inside_s)
        return cls(stretch.steps, bound, waits.step_s, waits.wait_s, loading, loading_s) if bound.any() else None

    def of_work(self, removed_s: FloatArray, timeline: Timeline) -> FloatArray:
        """What is really gained where so much is taken out of each row of own work, in place of that; both
        ``[rows of work]``."""
        own, locations = timeline.own, timeline.locations
        location = burst_locations(timeline)[own.burst]
        rank, main = locations.rank[location], locations.is_main[location]
        loading = self.loading[own.activity]
        itself_s, theirs_s = (
            weighted_count(rank, np.where(chosen, removed_s, 0.0), timeline.ranks) / self.steps
            for chosen in (main & ~loading, main & loading)
        )
        return np.where(main, np.minimum(removed_s * self.gained(itself_s, theirs_s)[rank], own.seconds), removed_s)

    def of_calls(self, removed_s: FloatArray, timeline: Timeline) -> FloatArray:
        """The same of transfers ``[calls]``."""
        calls, locations = timeline.calls, timeline.locations
        rank, main = locations.rank[calls.location], locations.is_main[calls.location]
        itself_s = weighted_count(rank, np.where(main, removed_s, 0.0), timeline.ranks) / self.steps
        gained = self.gained(itself_s, np.zeros(timeline.ranks))[rank]
        return np.where(main, removed_s * np.minimum(gained, 1.0), removed_s)

    def gained(self, itself_s: FloatArray, theirs_s: FloatArray) -> FloatArray:
        """What a step gains, in parts of what is taken out of the work of each rank, and of that of its workers for
        which it waits; all ``[ranks]``."""
        made_s = self.step_s * (1.0 - np.minimum(theirs_s / np.maximum(self.loading_s, 1e-300), 1.0))
        step_s = np.maximum(self.step_s - self.wait_s - itself_s, made_s)
        gained = (self.step_s - step_s) / np.maximum(itself_s + theirs_s, 1e-300)
        return np.where(self.bound & (itself_s + theirs_s > 0.0), gained, 1.0)


@dataclass(frozen=True, slots=True)
class Removal:
    """Takes parts out of the steady state of a run."""

    stretch: Stretch
    pace: LoaderPace | None
    timeline: Timeline

    @classmethod
    def of(cls, stretch: Stretch, facts: Facts) -> Removal:
        """That of a run."""
        return cls(stretch, LoaderPace.of(facts), facts.timeline)

    def of_work(self, rows: BoolArray, seconds: FloatArray) -> Change:
        """The run without what some ``rows`` of own work take of it: ``seconds``; each ``[rows of work]``."""
        bursts = len(self.timeline.calls) + len(self.timeline.locations)
        removed_s = np.where(rows, seconds * self.stretch.row_part, 0.0)
        if self.pace is not None:
            removed_s = self.pace.of_work(removed_s, self.timeline)
        return Change.of(weighted_count(self.timeline.own.burst, removed_s, bursts))

    def of_transfers(self, seconds: FloatArray) -> Change:
        """The run with calls whose transfers take so much less ``[calls]``."""
        if self.pace is not None:
            seconds = self.pace.of_calls(seconds, self.timeline)
        return Change.of(np.zeros(len(self.timeline.calls) + len(self.timeline.locations)), None, seconds)
