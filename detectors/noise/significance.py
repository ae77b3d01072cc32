"""Causes separated from noise: dead band, persistence, and outliers against the run's own variation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.sync_intervals import SyncIntervals
from scalana.detectors.noise.verdict import beyond_noise, means_of
from scalana.detectors.thresholds.certainty import OUTLYING
from scalana.detectors.thresholds.counts import SHOWS_THE_NOISE
from scalana.detectors.thresholds.differences import DEAD_BAND, ORDINARY, STANDS_OUT, STANDS_OUT_AT_START
from scalana.detectors.thresholds.shares import EXPLAINED
from scalana.detectors.whatif.replay import Replay
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.hashing import number_columns, ordered
from scalana.graphs.arrays.segments import at_quantiles, medians, quantiles, sort_segments, weighted_count
from scalana.graphs.arrays.shards import each, portions_of
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline

EPOCHS, EPOCH = 8, 20
"""Parts of the run, of which a rank may be late in some, and instances of a place that there must be in one."""


@dataclass(slots=True)
class Significance:
    """How much of each wait group's seconds stands above noise."""

    part: FloatArray
    """Between 0 and 1 ``[wait groups]``."""
    steady: FloatArray
    """Of these, what is due to ranks that are late on average ``[wait groups]``."""
    drifting: FloatArray
    """Part that is due to ranks that are far later than the others for a part of the run, on average
    ``[wait groups]``."""
    repeated: FloatArray
    """Part that comes from places with instances enough to tell ``[wait groups]``."""


def significance(blamed: BlamedRun, replay: Replay, wanted: IntArray) -> Significance:
    """Judge wait groups by exact times: the own time of every member's stretch, less what it waited for a core.

    A wait is significant where its culprit is late *on average over all instances of the place*, or where this
    lateness is an outlier among ordinary stretches there; in both cases only above the dead band.

    Only what concerns the groups ``wanted`` is looked at; of others all is 0.
    """
    table, timeline = blamed.table, blamed.timeline
    intervals, groups = table.intervals, table.groups
    count = len(groups.group_wait_s)
    asked = np.zeros(len(groups.comparison_culprit), dtype=bool)
    asked[groups.group_comparison[wanted]] = True
    site = _sites(blamed)
    here = np.zeros(int(site.max(initial=-1)) + 1, dtype=bool)
    here[site[asked[groups.comparison]]] = True
    latenesses = np.flatnonzero(here[site])
    latenesses = latenesses[ordered(site[latenesses], len(here))]
    changes = np.append(True, np.diff(site[latenesses]) != 0)[: len(latenesses)]
    site = np.cumsum(changes) - 1
    seconds = _Seconds.of(timeline, replay, table.row_of_burst)
    begins = np.append(np.flatnonzero(changes), len(site))
    size = intervals.first[latenesses + 1] - intervals.first[latenesses]
    rows = np.concatenate(([0], np.cumsum(size)))[begins]

    def judge(sites: slice) -> tuple[npt.NDArray[np.bool_], ...]:
        at = slice(begins[sites.start], begins[sites.stop])
        return _judge(timeline, seconds, intervals, latenesses[at], site[at] - site[at.start])

    judged = [np.zeros(len(intervals.culprit), dtype=bool) for _ in range(4)]
    for column, parts in zip(judged, zip(*each(judge, portions_of(rows)), strict=True), strict=False):
        column[latenesses] = np.concatenate(parts)
    row = intervals.rows_of(latenesses)
    delay = np.repeat(latenesses, size)
    waited = intervals.wait_s[row] > 0.0
    row, delay = row[waited], delay[waited]
    group, wait_s = groups.wait_group[row], intervals.wait_s[row]
    whole = np.maximum(weighted_count(group, wait_s, count), 1e-300)
    return Significance(*(weighted_count(group, wait_s * kept[delay], count) / whole for kept in judged))


class _Work(NamedTuple):
    """Rows of own work, and where those of every burst begin ``[bursts + 1]``."""

    first: IntArray
    activity: IntArray
    seconds: FloatArray
    cpu_s: FloatArray
    core_wait_s: FloatArray


@dataclass(slots=True)
class _Seconds:
    """Sums over the bursts of a run, from its first on; each ``[calls + 1]``."""

    own: FloatArray
    """Own time, less what was waited for a core."""
    stall: FloatArray
    """Time neither on a CPU nor waiting for one, other than for a helper."""
    starved: FloatArray
    """Time waiting for a core."""
    carried_s: FloatArray
    """How much later than the first the record of a location begins ``[locations]``."""
    begin_s: float
    """When the first record begins."""
    run_s: float
    """From then to when the last one ends."""

    @classmethod
    def of(cls, timeline: Timeline, replay: Replay, row_of_burst: IntArray) -> _Seconds:
        """Add them up."""
        own, start_s = timeline.own, timeline.locations.start_s
        own_s, stall_s, starved_s = (np.empty(len(timeline.calls) + 1) for _ in range(3))
        work = _Work(row_of_burst, own.activity, own.seconds, own.cpu_s, own.core_wait_s)
        _add_up(work, timeline.activities.helper, replay.burst_s, own_s, stall_s, starved_s)
        begin_s = float(start_s.min(initial=np.inf))
        run_s = float(timeline.locations.end_s.max(initial=-np.inf)) - begin_s
        return cls(own_s, stall_s, starved_s, start_s - begin_s, begin_s, run_s)


@compiled
def _add_up(work, helper, burst_s, own, stall, starved):  # type: ignore[no-untyped-def]  # pragma: no cover
    first, activity, seconds, cpu_s, core_wait_s = work
    own[0] = stall[0] = starved[0] = 0.0
    for burst in range(len(own) - 1):
        still = without_core = 0.0
        for row in range(first[burst], first[burst + 1]):
            without_core += core_wait_s[row]
            if not helper[activity[row]]:
                still += seconds[row] - cpu_s[row] - core_wait_s[row]
        own[burst + 1] = own[burst] + (burst_s[burst] - without_core)
        stall[burst + 1] = stall[burst] + still
        starved[burst + 1] = starved[burst] + without_core


def _judge(
    timeline: Timeline, seconds: _Seconds, intervals: SyncIntervals, latenesses: IntArray, site: IntArray
) -> tuple[npt.NDArray[np.bool_], ...]:
    """Tell of all latenesses of some sites whether they stand above noise, those of these due to ranks that are late on
    average, those due to ranks that are so for a part of the run, and whether the site has instances enough to tell,
    each ``[latenesses]``."""
    calls = timeline.calls
    size = intervals.first[latenesses + 1] - intervals.first[latenesses]
    # Every participant is a row: the members of a lateness, and then its culprit.
    member_first = np.concatenate(([0], np.cumsum(size)))
    first = member_first + np.arange(len(member_first))
    culprit = first[1:] - 1
    member = np.delete(np.arange(first[-1]), culprit)
    call, since = np.empty(first[-1], intervals.call.dtype), np.empty(first[-1], intervals.call.dtype)
    row = intervals.rows_of(latenesses)
    call[member], since[member] = intervals.call[row], intervals.since_call[row]
    call[culprit], since[culprit] = intervals.culprit[latenesses], intervals.since_culprit[latenesses]
    location = calls.location[call]
    begin = np.where(since >= 0, since + 1, calls.first[location])
    call += 1  # where the bursts end

    # What is compared of stretches that reach back to the start includes how late their record began.
    own_s = seconds.own[call] - seconds.own[begin] + np.where(since < 0, seconds.carried_s[location], 0.0)
    stall_s = seconds.stall[call] - seconds.stall[begin]
    culprit_s = own_s[culprit]
    median = medians(member_first, own_s[member])
    late_s = culprit_s - median
    in_band = late_s >= DEAD_BAND * np.maximum(culprit_s, 1e-12)

    pair, _ = number_columns(np.repeat(site, size + 1), location)
    spread = _ordinary_spread(site, size + 1, pair, own_s)
    outlying = beyond_noise(late_s, np.maximum(spread[site], 1e-4), OUTLYING)
    over_s = own_s - np.repeat(medians(first, own_s), size + 1)
    persistent = _persistently_late(pair, over_s)[pair[culprit]]
    enough = np.bincount(site)[site] >= SHOWS_THE_NOISE
    # Nothing that shares cores with others makes a rank sleep or wait for a disk or a lock: where that is what makes it
    # late, and it hardly waited for a core (what throttles a core shows as sleep), the turns are the program's doing.
    usual_stall = medians(member_first, stall_s[member])
    starved = seconds.starved[call[culprit]] - seconds.starved[begin[culprit]]
    stalled = (late_s > STANDS_OUT * np.maximum(median, 1e-12)) & (starved <= (1.0 - EXPLAINED) * late_s)
    stalled &= stall_s[culprit] - usual_stall >= EXPLAINED * late_s
    needed = np.where(since[culprit] < 0, STANDS_OUT_AT_START, STANDS_OUT) * np.maximum(median, 1e-12)
    signal = in_band & np.where(enough, outlying | persistent | stalled, late_s > needed)
    arrived = (calls.enter_s[intervals.culprit[latenesses]] - seconds.begin_s) / max(seconds.run_s, 1e-300)
    epoch = np.repeat(np.clip((arrived * EPOCHS).astype(np.int64), 0, EPOCHS - 1), size + 1)
    drifting = in_band & _late_for_a_while(pair, epoch, own_s, over_s)[culprit]
    return signal, signal & persistent, drifting, enough


def _sites(blamed: BlamedRun) -> IntArray:
    """Number of (vertex of the late call, communicator, vertex of the last common one) ``[latenesses]``."""
    table, timeline = blamed.table, blamed.timeline
    intervals, calls = table.intervals, timeline.calls
    since = np.where(intervals.since_culprit >= 0, calls.vertex[np.maximum(intervals.since_culprit, 0)], -1)
    communicator = timeline.instances.communicator[intervals.instance]
    return number_columns(calls.vertex[intervals.culprit], communicator, since)[0]


def _ordinary_spread(site: IntArray, size: IntArray, pair: IntArray, own_s: FloatArray) -> FloatArray:
    """Standard deviation of ordinary stretches at each site, from its lower quantiles: outliers are all late.

    For a normal distribution the 10 % and 40 % quantiles are 1.028 standard deviations apart. Each location is first
    measured from its own lower quartile, since ranks may have different roles: ``pair`` is (site, location).
    """
    (usual,) = quantiles(pair, own_s, (0.25,), (False,))
    centred = own_s - usual[pair]
    first = np.concatenate(([0], np.cumsum(np.bincount(site, size)))).astype(np.int64)
    low, high = at_quantiles(first, sort_segments(first, centred), (0.10, 0.40), (False, False))
    return np.asarray((high - low) / 1.028)


def _persistently_late(pair: IntArray, late_s: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether the mean lateness of a location at a site is above zero by many standard errors ``[pairs]``."""
    means = means_of(pair, late_s)
    return np.asarray((means.number >= SHOWS_THE_NOISE) & beyond_noise(means.mean, means.error + 1e-9, OUTLYING))


def _late_for_a_while(pair: IntArray, epoch: IntArray, own_s: FloatArray, over_s: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether a location is late on average, and much, at a site in the part of the run that a participant is in
    ``[participants]``: load that moves from rank to rank makes none of them late over the whole run."""
    part = pair * EPOCHS + epoch
    number = np.bincount(part)
    late_s = weighted_count(part, over_s, len(number))
    much = late_s >= ORDINARY * weighted_count(part, own_s - over_s, len(number))
    return np.asarray((_persistently_late(part, over_s) & much & (number >= EPOCH))[part])
