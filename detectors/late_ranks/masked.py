"""What comes next: the cause that keeps everybody waiting once the first is mended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.join_waits import JoinWaits, join_waits
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.lines import is_made_up_for
from scalana.detectors.noise.contention import CoreContention
from scalana.detectors.rollup.candidates import Candidate, join_entries
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.factors import COMPARABLE
from scalana.detectors.thresholds.shares import MAJORITY, SHARE_OF_ITS_OWN
from scalana.detectors.whatif.changes import excess_of, interval_excess
from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.timeline import OwnWork, Timeline


def next_cause(candidate: Candidate, before: Mapping[CodeLocation, float], replay: Replay) -> Candidate | None:
    """Return the largest cause of waiting that is left when ``candidate`` is mended and was smaller before.

    ``before`` is what each place costs as it is. The run is replayed without the candidate's excess, and blamed again.
    Only work is a cause that one can mend, and only what of it is not due to turns on shared cores; a message, or
    lateness that is not explained, tells nothing, nor does a thread that rests until another one is done.
    """
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    mended = without(candidate, replay)
    waits = find_waits(mended)
    behind = blame(mended, waits, table.work, table.choice)
    contention, joined = CoreContention.of(timeline), join_waits(timeline)
    for other in join_entries(BlamedRun(mended, psg, behind)):
        grown = other.lost_s - before.get(other.code_location, 0.0)
        if (
            other.code_location.kind != TargetKind.OWN
            or other.code_location == candidate.code_location
            or grown < SHARE_OF_ITS_OWN * candidate.lost_s
        ):
            continue
        if _rests(other, timeline.own, joined):
            continue
        excess = interval_excess(other)
        if is_made_up_for(other, excess):
            continue
        # Nobody waits for a rank for longer than it does more: what costs more was in calls that were not written.
        most_s = float(np.maximum(excess.over_s, 0.0).sum()) * max(mended.ranks - 1, 1)
        if (
            grown <= COMPARABLE * most_s
            and contention.programs_part(excess) * grown >= SHARE_OF_ITS_OWN * candidate.lost_s
        ):
            return other
    return None


def _rests(candidate: Candidate, own: OwnWork, joined: JoinWaits) -> bool:
    """Whether a candidate's ranks but rest there until another of their threads is done: that ends earlier, too, where
    the other one does."""
    if not len(joined):
        return False
    table = candidate.blamed.table
    here = table.numbering.activity_mask(table.target[candidate.entries])[own.activity]
    return float(own.seconds[here & np.isin(own.burst, joined.burst)].sum()) > MAJORITY * float(own.seconds[here].sum())


def without(candidate: Candidate, replay: Replay) -> Timeline:
    """The timeline as it would be without the excess of a candidate."""
    timeline = candidate.blamed.timeline
    removed, earlier, shorter = excess_of(candidate)
    enter, leave, end = replay.times_s(Change.of(removed, earlier, shorter))
    calls, locations = timeline.calls, timeline.locations
    start = locations.start_s - earlier
    # Processes that calls of others start wait for these in a replay from its begin on; here they begin then.
    begun = replay.timeline.calls.enter_s < calls.enter_s
    enter[begun] = leave[begun]
    start[calls.location[begun]] -= (calls.exit_s - leave)[begun]
    return replace(
        timeline,
        calls=replace(calls, enter_s=enter, exit_s=leave),
        locations=replace(locations, start_s=start, end_s=end),
        own=replace(timeline.own, seconds=_shortened(candidate, removed)),
    )


def _shortened(candidate: Candidate, removed: FloatArray) -> FloatArray:
    """Seconds of the rows of own work, those of the candidate less what was removed from their bursts."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    own = timeline.own
    hit = table.numbering.activity_mask(table.target[candidate.entries])[own.activity]
    inside = np.bincount(own.burst[hit], weights=own.seconds[hit], minlength=len(removed))
    left = 1.0 - np.minimum(removed / np.maximum(inside, 1e-300), 1.0)
    return np.where(hit, own.seconds * left[own.burst], own.seconds)
