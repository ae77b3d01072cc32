"""What the ranks of a run computed in every step, as sums over its sequences, and how long they took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.spans.lengths import LengthCalls, length_calls
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges, periods_of_bursts
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class StepLengths:
    """Sums over the sequences of every rank in some steps of the steady state."""

    calls: LengthCalls
    row: IntArray
    """Of the calls among the steps here, -1 for calls in other steps ``[calls]``."""
    number: IntArray
    """Of the steps ``[steps]``."""
    tokens: FloatArray
    """``[steps, ranks]``"""
    squares: FloatArray
    """``[steps, ranks]``"""
    start_s: FloatArray
    """``[steps, ranks]``"""
    end_s: FloatArray
    """``[steps, ranks]``"""

    @classmethod
    def of(cls, spans: Spans, steps: Steps, ranks: int) -> StepLengths | None:
        """Those of the steps in which the sequences of all ranks are known; None where there are none of these."""
        calls = length_calls(spans)
        if calls is None:
            return None
        start_s, end_s = (times[steps.steady()] for times in steps.on_all_ranks())
        number = steps.number[steps.steady()]
        at = np.searchsorted(number, calls.step)
        at[at == len(number)] = 0
        there = (len(number) > 0) & (calls.rank >= 0) & (calls.rank < ranks)
        there &= number[at] == calls.step if len(number) else False
        sums = [
            weighted_count(at[there] * ranks + calls.rank[there], values[there], len(number) * ranks).reshape(-1, ranks)
            for values in (calls.tokens, calls.squares)
        ]
        known = np.flatnonzero((sums[0] > 0.0).all(axis=1) & (end_s > start_s).all(axis=1))
        if not len(known):
            return None
        place = np.full(len(number), -1)
        place[known] = np.arange(len(known))
        row = np.where(there, place[at], -1)
        return cls(calls, row, number[known], sums[0][known], sums[1][known], start_s[known], end_s[known])

    def replicas(self) -> IntArray:
        """Number of the replica of the data that each rank computes: ranks whose sums are always equal share one, as
        with tensor and context parallelism ``[ranks]``."""
        sums = np.concatenate((self.tokens, self.squares))
        return np.asarray(np.unique(sums, axis=1, return_inverse=True)[1].reshape(-1))

    def work_s(self, timeline: Timeline, chosen: BoolArray) -> FloatArray:
        """What ranks worked in each step, without waiting for a core, in some rows of own work ``[steps, ranks]``.

        A burst that reaches over the edge of a step is divided in proportion to time.
        """
        own, locations = timeline.own, timeline.locations
        begin, end = gap_edges(timeline)
        rows = np.flatnonzero(chosen)
        of_burst = weighted_count(own.burst[rows], (own.seconds - own.core_wait_s)[rows], len(begin))
        bursts = np.flatnonzero(of_burst > 0.0)
        location = burst_locations(timeline)[bursts]
        result = np.zeros_like(self.tokens)
        order = np.argsort(location, kind="stable")
        first = np.searchsorted(location[order], np.arange(len(locations) + 1))
        for place in np.flatnonzero(np.diff(first)).tolist():
            mine = bursts[order[first[place] : first[place + 1]]]
            rank = int(locations.rank[place])
            edges = np.stack((begin[mine], end[mine]), axis=1).ravel()
            done = np.cumsum(np.stack((np.zeros(len(mine)), of_burst[mine]), axis=1).ravel())
            since, until = (np.interp(times[:, rank], edges, done) for times in (self.start_s, self.end_s))
            result[:, rank] = np.maximum(result[:, rank], until - since)
        return result

    def steps_of_bursts(self, timeline: Timeline) -> tuple[IntArray, IntArray]:
        """The step in which the middle of each burst lies, -1 for none, and its rank, each ``[bursts]``."""
        return periods_of_bursts(timeline, Periods.of(self.start_s, self.end_s))
