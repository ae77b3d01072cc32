"""What a fix would bring: the run replayed without the excess of one finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.choices import with_alternatives
from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.delays.forks import StartedThreads
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.thresholds.shares import LARGELY, MAJORITY
from scalana.detectors.whatif.replay import Change
from scalana.detectors.whatif.shrinkage import steadied
from scalana.graphs.arrays.hashing import distinct
from scalana.graphs.arrays.segments import quantiles
from scalana.graphs.arrays.shards import rows_of_ranges
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Timeline


def change_of(candidate: Candidate, excess: IntervalExcess | None) -> Change:
    """What goes from a run when a candidate is mended; see :func:`excess_of`, and for single bursts
    :func:`steadied`."""
    timeline = candidate.blamed.timeline
    if candidate.code_location.kind in (TargetKind.CARRIED_IN, TargetKind.TRANSFER):
        return Change.of(*excess_of(candidate))
    excess = excess or interval_excess(candidate)
    removed, *others = excess_of(candidate, excess)
    return Change.of(steadied(removed, excess.burst, excess.seconds, timeline), *others)


def excess_of(
    candidate: Candidate, excess: IntervalExcess | None = None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return what to take out: own work by burst, head start by location, transfer by call (None: nothing of it). All
    in seconds.

    ``excess`` is that of the candidate's stretches, where it is known already.
    """
    timeline = candidate.blamed.timeline
    calls, locations = timeline.calls, timeline.locations
    bursts = len(calls) + len(locations)
    removed, earlier = np.zeros(bursts), np.zeros(len(locations))
    kind = candidate.code_location.kind
    guilty = np.isin(locations.rank, candidate.ranks)
    if kind == TargetKind.CARRIED_IN:
        start = locations.start_s
        late = guilty & locations.is_main
        earlier[late] = start[late] - np.median(start[~guilty] if (~guilty).any() else start)
        started = StartedThreads.of(timeline)
        earlier[started.location] = earlier[started.main]
        return removed, np.maximum(earlier, 0.0), None
    if kind == TargetKind.TRANSFER:
        return removed, earlier, _transfer_excess(candidate, guilty)
    excess = excess or interval_excess(candidate)
    if not len(excess.first):
        return removed, earlier, None
    # What sampling adds to single stretches by chance cancels over all of a rank's.
    over = excess.over_s
    positive = np.maximum(over, 0.0)
    net = np.bincount(excess.location, weights=over, minlength=len(locations))
    gross = np.bincount(excess.location, weights=positive, minlength=len(locations))
    scale = np.clip(net / np.maximum(gross, 1e-300), 0.0, 1.0)
    if guilty.all():
        scale[:] = 1.0  # what is usual is then told by these very ranks: some are below it for that alone
    ratio = np.where(excess.did_s > 0.0, positive * scale[excess.location] / np.maximum(excess.did_s, 1e-300), 0.0)
    if kind == TargetKind.UNRESOLVED:
        share = candidate.lost_s / max(float(gross.sum()) * max(timeline.ranks - 1, 1), 1e-300)
        ratio *= min(1.0, share)
    _spread(excess, ratio, removed)
    bursts_too = np.arange(bursts) >= len(calls) if timeline.unwritten is None else np.ones(bursts, dtype=bool)
    _extend(excess, guilty, burst_locations(timeline), removed, bursts_too)
    return removed, StartedThreads.of(timeline).head_start_s(removed, timeline), None


@dataclass(slots=True)
class IntervalExcess:
    """What the ranks of a candidate did too much of, in every stretch of which the cause was blamed on anyone.

    It is measured against the members that are not among the candidate's ranks: two ranks that are slow in the same
    place are mended together. One row per participant and event.
    """

    burst: IntArray
    """Gap of every row of own work in the candidate's activities ``[rows of work]``."""
    seconds: FloatArray
    """Its seconds ``[rows of work]``."""
    first: IntArray
    """The first of these rows that is of the stretch, or comes after it ``[rows]``."""
    end: IntArray
    """The first that comes after it ``[rows]``."""
    location: IntArray
    """``[rows]``"""
    did_s: FloatArray
    """Seconds in the activities ``[rows]``."""
    did_cpu_s: FloatArray
    """The same of CPU time ``[rows]``."""
    over_s: FloatArray
    """Seconds above what is usual, negative if below; 0 for those not guilty ``[rows]``."""
    over_cpu_s: FloatArray
    """The same of CPU time ``[rows]``."""
    over_core_wait_s: FloatArray
    """The same of time runnable without a core ``[rows]``."""
    asleep: bool = False
    """Whether the work there is sleep, for the most part."""
    of_pieces: bool = False
    """Whether it is what tasks take longer than their like, each of them a row."""

    def shares(self) -> tuple[float, float] | None:
        """Parts of the excess on a CPU and without a core, stretch by stretch: over the run all ranks may have done the
        same. None where there is no excess."""
        over = self.over_s > 0.0
        total = float(self.over_s[over].sum())
        if total <= 0.0:
            return None
        cpu_s, core_wait_s = float(self.over_cpu_s[over].sum()), float(self.over_core_wait_s[over].sum())
        return min(1.0, max(0.0, cpu_s / total)), min(1.0, max(0.0, core_wait_s / total))

    def times_usual(self) -> float:
        """So many times the CPU time that is usual there is what the late stretches take."""
        over = self.over_s > 0.0
        did_s = float(self.did_cpu_s[over].sum())
        return did_s / max(did_s - float(self.over_cpu_s[over].sum()), 1e-300)


def interval_excess(candidate: Candidate, activities: IntArray | None = None) -> IntervalExcess:
    """Measure the excess of a candidate on own work; of what is not resolved, that of all own work. In some
    ``activities`` instead, if these are given."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    calls, own = timeline.calls, timeline.own
    targets = np.unique(table.target[candidate.entries])
    mask = np.ones(len(timeline.activities), dtype=bool)
    if candidate.code_location.kind == TargetKind.OWN:
        mask[:] = False
        if activities is None:
            activities = with_contexts_of_others(targets, candidate.ranks, table.work, timeline)
            activities = with_alternatives(activities, candidate.ranks, table.choice, timeline)
        mask[activities] = True
    intervals = table.intervals
    blamed = np.flatnonzero(comparisons_blamed(targets, table)[table.groups.comparison])
    rows, culprit = intervals.rows_of(blamed), intervals.culprit[blamed]
    call = np.concatenate([intervals.call[rows], culprit])
    since = np.concatenate([intervals.since_call[rows], intervals.since_culprit[blamed]])
    count = np.arange(len(blamed))
    event_of = np.concatenate([np.repeat(count, intervals.first[blamed + 1] - intervals.first[blamed]), count])
    location = calls.location[call]
    guilty = np.isin(timeline.locations.rank, candidate.ranks)[location]
    work = np.flatnonzero(mask[own.activity])
    burst = own.burst[work]
    seconds, cpu_s, core_wait_s = (column[work] for column in (own.seconds, own.cpu_s, own.core_wait_s))
    first = np.searchsorted(burst, np.where(since >= 0, since + 1, calls.first[location]))
    end = np.searchsorted(burst, call, side="right")
    _before_start(first, end, _Work(burst, seconds, cpu_s + core_wait_s), location, since, timeline)

    # Where ranks take turns in sleeping, it is the one that did not sleep at all that shows what is usual.
    own_s, without_core_s = float(seconds.sum()), float(core_wait_s.sum())
    asleep = without_core_s <= 0.5 * own_s and float(cpu_s.sum()) <= (1.0 - LARGELY) * (own_s - without_core_s)
    middle = 0.0 if asleep else 0.5

    def did(seconds: FloatArray) -> FloatArray:
        cumulative = np.concatenate([[0.0], np.cumsum(seconds)])
        return np.asarray(cumulative[end] - cumulative[first])

    did_s = did(seconds)
    low, high = _usual_rows(event_of, did_s, guilty, middle)

    def over(did: FloatArray) -> FloatArray:
        return np.where(guilty, did - (did[low] + did[high]) / 2.0, 0.0)

    did_cpu_s = did(cpu_s)
    return IntervalExcess(
        burst, seconds, first, end, location, did_s, did_cpu_s, over(did_s), over(did_cpu_s), over(did(core_wait_s)),
        asleep,
    )  # fmt: skip


class _Work(NamedTuple):
    """Rows of own work, in the order of bursts; each ``[rows]``."""

    burst: IntArray
    seconds: FloatArray
    busy_s: FloatArray
    """On a CPU, or waiting for one."""


def _before_start(
    first: IntArray, end: IntArray, work: _Work, location: IntArray, since: IntArray, timeline: Timeline
) -> None:
    """Let stretches of threads from the beginning, if there is nothing in them, be what their main one did before it
    started them: nothing of the burst in which it did so, if it rested there for longer than until then."""
    started, (burst, seconds, busy_s) = StartedThreads.of(timeline), work
    for row, thread in enumerate(started.location.tolist()):
        empty = np.flatnonzero((location == thread) & (since < 0) & (first == end))
        before, start = started.calls_before(row, timeline), int(started.burst[row])
        low, last, high = np.searchsorted(burst, (before.start, start, start + 1)).tolist()
        there_s = float(seconds[last:high].sum())
        came_later = there_s > started.into_s[row] and float(busy_s[last:high].sum()) < MAJORITY * there_s
        stop = last if came_later else high
        if start < len(timeline.calls):
            first[empty], end[empty] = low, stop
        elif before.start == before.stop:
            first[empty], end[empty] = last, stop
        else:
            first[empty], end[empty] = np.searchsorted(burst, (before.start, before.stop))


def comparisons_blamed(targets: IntArray, table: BlameTable) -> npt.NDArray[np.bool_]:
    """The comparisons that put a share on one of the targets ``[comparisons]``."""
    groups, shares = table.groups, table.shares
    wanted = np.zeros(table.numbering.wait + 1, dtype=bool)
    wanted[targets] = True
    blamed = np.zeros(len(groups.comparison_culprit), dtype=bool)
    blamed[groups.group_comparison[shares.group[wanted[shares.target]]]] = True
    return blamed


def _usual_rows(event: IntArray, did_s: FloatArray, guilty: np.ndarray, middle: float) -> tuple[IntArray, IntArray]:
    """Who does there what is usual, for every row: two rows that are the median of those not guilty, or twice one at a
    quantile of all where all are ``[rows]``.

    The CPU time of these very members is what an excess is compared with, too, so that its parts add up to it, and so
    that what came by chance is as often below as above.
    """
    count = int(event.max(initial=-1)) + 1
    low, high = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    others = np.flatnonzero(~guilty)
    alone = np.ones(count, dtype=bool)
    alone[event[others]] = False
    for rows, part, upper in ((others, 0.5, True), (np.flatnonzero(alone[event]), middle, False)):
        if not len(rows):
            continue
        events, _, number = distinct(event[rows])
        values = quantiles(number, did_s[rows], (part, part), (False, upper))
        for chosen, value in zip((low, high), values, strict=True):
            at = np.flatnonzero(did_s[rows] == value[number])
            chosen[events[number[at]]] = rows[at]
    return low[event], high[event]


def _transfer_excess(candidate: Candidate, guilty: np.ndarray) -> FloatArray:
    """Transfer time of the guilty ranks at the finding's call above the other ranks' mean there ``[calls]``."""
    timeline = candidate.blamed.timeline
    calls = timeline.calls
    here = calls.vertex == candidate.code_location.vertex
    duration = calls.exit_s - calls.enter_s
    usual = duration[here & ~guilty[calls.location]]
    reference = float(np.median(usual)) if len(usual) else 0.0
    return np.where(here & guilty[calls.location], np.maximum(duration - reference, 0.0), 0.0)


def _spread(excess: IntervalExcess, ratio: FloatArray, removed: FloatArray) -> None:
    """Spread each stretch's excess over its bursts in proportion; of overlapping stretches the larger counts."""
    burst = excess.burst
    begins = np.append(np.flatnonzero(np.append(True, np.diff(burst) != 0)[: len(burst)]), len(burst))
    within = np.add.reduceat(excess.seconds, begins[:-1]) if len(burst) else excess.seconds
    rows = np.flatnonzero(ratio > 0.0)
    first, end = (np.searchsorted(begins, edge[rows]) for edge in (excess.first, excess.end))
    size = end - first
    which = rows_of_ranges(first, size)
    np.maximum.at(removed, burst[begins[which]], within[which] * np.repeat(ratio[rows], size))


def _extend(
    excess: IntervalExcess, guilty: BoolArray, location: IntArray, removed: FloatArray, bursts_too: BoolArray
) -> None:
    """Take as large a part of a rank's work outside of its stretches as inside, in the bursts ``bursts_too``: that
    after its last call, for which nobody waits, but which the end of the run does; and where a sample of the calls was
    written, any, as stretches lead to some of its late arrivals only.

    ``location`` is that of every burst ``[bursts]``.
    """
    rows = guilty[excess.location]
    depth = np.zeros(len(excess.burst) + 1, dtype=np.int64)
    np.add.at(depth, excess.first[rows], 1)
    np.add.at(depth, excess.end[rows], -1)
    inside = np.cumsum(depth)[:-1] > 0
    of_row, count = location[excess.burst], len(guilty)
    did = np.bincount(of_row[inside], excess.seconds[inside], count)
    ratio = np.divide(np.bincount(location, removed, count), did, out=np.zeros(count), where=did > 0.0)
    outside = ~inside & guilty[of_row] & bursts_too[excess.burst]
    np.add.at(removed, excess.burst[outside], excess.seconds[outside] * np.minimum(ratio, 1.0)[of_row[outside]])
