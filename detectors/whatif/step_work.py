"""What ranks compute in steps, operation by operation, and the run again with other durations of these.

An operation may lie in several bursts between calls, and a burst may hold several operations: what is changed of an
operation is spread over its bursts in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.shards import rows_of_ranges
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class StepWork(ColumnTable):
    """Operations that repeat in every step, replica and microbatch, ``[operations]`` all; on one location one after the
    other."""

    location: IntArray
    kind: IntArray
    """Number of what they do: those of one kind would take the same in an even job."""
    step: IntArray
    replica: IntArray
    stage: IntArray
    """From 0 on."""
    microbatch: IntArray
    """In its step and replica; -1 for what is not about one."""
    begin_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True, slots=True)
class Durations:
    """What operations and transfers of a run take, and how a run with others of both is replayed."""

    replay: Replay
    work: StepWork
    burst: IntArray
    """The burst of every piece of an operation ``[pieces]``."""
    operation: IntArray
    """``[pieces]``"""
    piece_s: FloatArray
    """``[pieces]``"""
    own_s: FloatArray
    """Seconds of every operation outside of calls ``[operations]``."""
    transfer_s: FloatArray
    """Of every call ``[calls]``."""
    within: BoolArray
    """Whether a call is one of the steps ``[calls]``."""
    earlier_s: FloatArray
    """By how much locations begin later than the first ``[locations]``."""

    @classmethod
    def of(cls, replay: Replay, work: StepWork, transfer_s: FloatArray) -> Durations:
        """Those of a run; ``transfer_s`` are seconds of its calls that are no waiting ``[calls]``."""
        timeline = replay.timeline
        burst, operation, piece_s = _pieces(timeline, work)
        within = timeline.calls.exit_s > float(work.begin_s.min())
        within &= np.isin(timeline.calls.location, work.location)
        own_s = weighted_count(operation, piece_s, len(work))
        start_s = timeline.locations.start_s
        return cls(replay, work, burst, operation, piece_s, own_s, transfer_s, within, start_s - start_s.min())

    def change(self, own_s: FloatArray, transfer_s: FloatArray) -> Change:
        """The run with these durations of operations ``[operations]`` and transfers ``[calls]``, and nothing else: no
        time lies between operations, and the run begins with the first step."""
        factor = np.divide(own_s, self.own_s, out=np.ones(len(own_s)), where=self.own_s > 0.0)
        left_s = weighted_count(self.burst, self.piece_s * factor[self.operation], len(self.replay.burst_s))
        after_s = np.where(self.within, transfer_s, 0.0)
        return Change.of(self.replay.burst_s - left_s, self.earlier_s, self.transfer_s - after_s)

    def lengths_s(self, changes: Sequence[Change]) -> list[float]:
        """How long the run is with each of some changes, seconds."""
        begin_s = float(self.replay.timeline.locations.start_s.min())
        return [float(end_s.max()) - begin_s for end_s in self.replay.ends_s(changes)]


def _pieces(timeline: Timeline, work: StepWork) -> tuple[IntArray, IntArray, FloatArray]:
    """What of every operation lies in which burst: bursts, operations, seconds, ``[pieces]`` each."""
    calls, locations = timeline.calls, timeline.locations
    begin_s, end_s = gap_edges(timeline)
    location = np.concatenate((calls.location, np.arange(len(locations)))).astype(np.int64)
    order = np.lexsort((begin_s, location))
    # All locations one behind the other, on one axis.
    origin = float(locations.start_s.min())
    length = float(locations.end_s.max()) - origin + 1.0
    of_burst = location[order] * length - origin
    begins, ends = begin_s[order] + of_burst, end_s[order] + of_burst
    of_work = work.location * length - origin
    first = np.searchsorted(np.maximum.accumulate(ends), work.begin_s + of_work, side="right")
    last = np.searchsorted(begins, work.end_s + of_work, side="left")
    size = np.maximum(last - first, 0)
    row = rows_of_ranges(first, size)
    operation = np.repeat(np.arange(len(work)), size)
    shared_s = np.minimum(ends[row], (work.end_s + of_work)[operation])
    shared_s -= np.maximum(begins[row], (work.begin_s + of_work)[operation])
    some = shared_s > 0.0
    return order[row[some]], operation[some], shared_s[some]
