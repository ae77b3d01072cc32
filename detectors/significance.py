"""Telling causes from noise: dead band, persistence, and outliers against the run's own variation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.blame import BlameTable
from scalana.detectors.replay import Replay
from scalana.detectors.segments import median_by_key, quantile_by_key, quantiles_by_key, sum_by_key, weighted_count
from scalana.graphs.hashing import number_columns
from scalana.graphs.timeline import FloatArray, IntArray, Timeline

DEAD_BAND = 0.05
"""Differences below this part of the stretch are no finding."""
PERSISTENT = 5.0
"""Standard errors by which a rank's mean lateness must differ from zero to be its own."""
OUTLYING = 5.0
"""Standard deviations of the ordinary stretch by which a single lateness must stand out."""
REPEATED = 5
"""Instances from which the noise of a place can be estimated."""
STANDS_OUT = 0.3
"""Part of the ordinary stretch by which a lateness must exceed it where nothing repeats."""
STANDS_OUT_AT_START = 1.0
"""The same of what lies between the start of the record and the first meeting: processes start and import at very
different speeds on a busy machine, and this says little about the program."""


STALLED = 0.8
"""Part of a lateness that must be spent off the CPU for it to count as no noise of a busy machine."""


@dataclass(slots=True)
class Significance:
    """How much of each wait group's seconds stands above noise."""

    part: FloatArray
    """Between 0 and 1 ``[wait groups]``."""
    steady: FloatArray
    """Of these, what is due to ranks that are late on average ``[wait groups]``."""
    repeated: FloatArray
    """Part that comes from places with instances enough to tell ``[wait groups]``."""


def significance(table: BlameTable, timeline: Timeline, replay: Replay) -> Significance:
    """Judge each wait group by exact times: the own time of every member's stretch, less what it waited for a core.

    A wait is significant where its culprit is late *on average over all instances of the place*, or where this
    lateness is an outlier among ordinary stretches there; in both cases only above the dead band.
    """
    stretches, groups, calls = table.stretches, table.groups, timeline.calls
    count = len(groups.group_wait_s)
    if not len(stretches):
        return Significance(np.zeros(count), np.zeros(count), np.zeros(count))
    own = timeline.own

    def by_gap(seconds: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(own.gap, weights=seconds, minlength=len(replay.gap_s)), dtype=np.float64)

    def of_stretch(seconds: FloatArray, call: IntArray, since: IntArray) -> FloatArray:
        cumulative = np.concatenate([[0.0], np.cumsum(seconds[: len(calls)])])
        begin = np.where(since >= 0, since + 1, calls.first[calls.location[call]])
        return np.asarray(cumulative[call + 1] - cumulative[begin])

    # What is compared of stretches that reach back to the start includes how late their record began.
    start_s = timeline.locations.start_s
    carried_s = start_s - start_s.min(initial=np.inf)

    def with_start(call: IntArray, since: IntArray) -> FloatArray:
        return of_stretch(own_s, call, since) + np.where(since < 0, carried_s[calls.location[call]], 0.0)

    own_s = replay.gap_s - by_gap(own.core_wait_s)
    member_s = with_start(stretches.call, stretches.since_call)
    culprit_s = with_start(stretches.culprit, stretches.since_culprit)
    site = _sites(table, timeline)
    event, first = number_columns(stretches.instance, stretches.culprit, stretches.since_culprit)
    events = np.arange(len(first))
    _, median = median_by_key(event, member_s)
    late_s = culprit_s[first] - median
    event_site = site[first]
    event_location = calls.location[stretches.culprit[first]]
    in_band = late_s >= DEAD_BAND * np.maximum(culprit_s[first], 1e-12)

    # From here on every participant is a row, the culprit once per event.
    all_event = np.concatenate([event, events])
    all_site = np.concatenate([site, event_site])
    all_location = np.concatenate([calls.location[stretches.call], event_location])
    all_s = np.concatenate([member_s, culprit_s[first]])
    spread = _ordinary_spread(all_site, all_location, all_s)
    outlying = late_s > OUTLYING * np.maximum(spread[event_site], 1e-4)
    width = len(timeline.locations)
    late_locations = _persistently_late(
        all_site * width + all_location, all_s - median_by_key(all_event, all_s)[1][all_event]
    )
    persistent = np.isin(event_site * width + event_location, late_locations)
    per_site = np.bincount(event_site, minlength=int(site.max()) + 1)
    enough = per_site[event_site] >= REPEATED
    # Nothing that shares cores with others makes a rank sleep or wait for a disk or a lock: where that is what makes it
    # late, and it hardly waited for a core (what throttles a core shows as sleep), the turns are the program's doing.
    helper = timeline.activities.helper[own.activity]
    stall_s = by_gap(np.where(helper, 0.0, own.seconds - own.cpu_s - own.core_wait_s))
    _, usual_stall = median_by_key(event, of_stretch(stall_s, stretches.call, stretches.since_call))
    culprit_stall, starved = (
        of_stretch(seconds, stretches.culprit[first], stretches.since_culprit[first])
        for seconds in (stall_s, by_gap(own.core_wait_s))
    )
    stalled = (late_s > STANDS_OUT * np.maximum(median, 1e-12)) & (starved <= (1.0 - STALLED) * late_s)
    stalled &= culprit_stall - usual_stall >= STALLED * late_s
    since_start = stretches.since_culprit[first] < 0
    needed = np.where(since_start, STANDS_OUT_AT_START, STANDS_OUT) * np.maximum(median, 1e-12)
    signal = in_band & np.where(enough, outlying | persistent | stalled, late_s > needed)

    waited = stretches.wait_s > 0.0
    group = groups.wait_group[waited]
    seconds = weighted_count(group, stretches.wait_s[waited], count)
    row = event[waited]

    def part(kept: np.ndarray) -> FloatArray:
        return weighted_count(group, stretches.wait_s[waited] * kept[row], count) / np.maximum(seconds, 1e-300)

    return Significance(part(signal), part(signal & persistent), part(enough))


def _sites(table: BlameTable, timeline: Timeline) -> IntArray:
    """Number of (vertex of the late call, communicator, vertex of the last common one) ``[rows]``."""
    stretches, calls = table.stretches, timeline.calls
    since = np.where(stretches.since_culprit >= 0, calls.vertex[np.maximum(stretches.since_culprit, 0)], -1)
    communicator = timeline.instances.communicator[stretches.instance]
    return number_columns(calls.vertex[stretches.culprit], communicator, since)[0]


def _ordinary_spread(site: IntArray, location: IntArray, own_s: FloatArray) -> FloatArray:
    """Standard deviation of ordinary stretches at each site, from its lower quantiles: outliers are all late.

    For a normal distribution the 10 % and 40 % quantiles are 1.028 standard deviations apart. Each location is first
    measured from its own lower quartile, since ranks may have different roles.
    """
    pair = number_columns(site, location)[0]
    centred = own_s - quantile_by_key(pair, own_s, 0.25)[1][pair]
    _, (low, high) = quantiles_by_key(site, centred, (0.10, 0.40), (False, False))
    return np.asarray((high - low) / 1.028)


def _persistently_late(key: IntArray, late_s: FloatArray) -> IntArray:
    """Keys whose mean lateness, over all their rows, is above zero by many standard errors."""
    keys, total = sum_by_key(key, late_s)
    _, squares = sum_by_key(key, late_s * late_s)
    _, number = sum_by_key(key, np.ones(len(late_s)))
    mean = total / number
    error = np.sqrt(np.maximum(squares / number - mean**2, 0.0) / np.maximum(number - 1, 1)) + 1e-9
    return np.asarray(keys[(number >= REPEATED) & (mean > PERSISTENT * error)])
