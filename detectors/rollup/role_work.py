"""What of an excess is more than others of the same role do at its place.

Whoever waits for a worker may do other things itself: beside a main process that waits for results all that a worker
does is excess, also what every worker does. Where it belongs is seen by what only this worker does, or does longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.thresholds.shares import MINOR
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Timeline

if TYPE_CHECKING:
    from scalana.detectors.rollup.named_place import CodeLocation


def beyond_role(
    leaves: Sequence[CodeLocation], deciders: Sequence[int], seconds: Sequence[float], timeline: Timeline
) -> list[float]:
    """Seconds of some excess by which it is decided where it belongs: without the part of the time at its place that is
    usual in the role of its rank. Of a rank that is left with next to nothing, all of them.

    Args:
        leaves: Where the excess was found.
        deciders: The rank of each; below 0 where several decide together.
        seconds: Of each.
        timeline: What ranks did, and their roles.
    """
    if not timeline.has_roles:
        return list(seconds)
    own = [number for number, leaf in enumerate(leaves) if leaf.kind == TargetKind.OWN and deciders[number] >= 0]
    places = {leaf[1:]: row for row, leaf in enumerate(dict.fromkeys(leaves[number] for number in own))}
    did_s = _time_at(places, timeline)
    usual_s = {
        role: np.quantile(did_s[:, timeline.role == role], 0.5, axis=1, method="lower")
        for role in np.unique(timeline.role).tolist()
    }
    result = list(seconds)
    whole_s, left_s = np.zeros(timeline.ranks), np.zeros(timeline.ranks)
    for number in own:
        place, rank = places[leaves[number][1:]], deciders[number]
        usual = float(usual_s[int(timeline.role[rank])][place]) / max(float(did_s[place, rank]), 1e-300)
        result[number] *= max(0.0, 1.0 - usual)
        whole_s[rank] += seconds[number]
        left_s[rank] += result[number]
    alike = left_s < MINOR * whole_s
    for number in own:
        if alike[deciders[number]]:
            result[number] = seconds[number]
    return result


def _time_at(places: dict[tuple[int, int], int], timeline: Timeline) -> FloatArray:
    """Own seconds of every rank at the lines of some vertices, by their rows ``[places, ranks]``."""
    own, activities, ranks = timeline.own, timeline.activities, timeline.ranks
    keys = zip(activities.vertex.tolist(), activities.line.tolist(), strict=True)
    place = np.array([places.get(key, -1) for key in keys], np.int64)[own.activity]
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst]]
    known = place >= 0
    cell = place[known] * ranks + rank[known]
    seconds: FloatArray = weighted_count(cell, own.seconds[known], len(places) * ranks)
    return seconds.reshape(len(places), ranks)
