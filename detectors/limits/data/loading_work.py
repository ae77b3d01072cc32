"""What ranks do, or others do for them, while they wait for data."""

from __future__ import annotations

import numpy as np

from scalana.detectors.facts import Facts
from scalana.detectors.sources.data_waits import DataWaits
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import own_by_activity


def loading_work(waits: DataWaits, facts: Facts) -> tuple[IntArray, FloatArray]:
    """The activities that ranks wait in for data, or that others do meanwhile, with the seconds of each."""
    timeline, psg, spans = facts.timeline, facts.psg, facts.ppg.spans
    at = set(spans.places(waits.rows))
    lines = {line for _, line in at}
    functions = {psg.function_of(vertex): line for vertex, line in at if 0 <= vertex < len(psg)}
    below = {v.index for vertex, _ in at if 0 < vertex < len(psg) for v in psg.walk(vertex)}
    activities = timeline.activities
    found = []
    for number, (vertex, helper) in enumerate(zip(activities.vertex.tolist(), activities.helper.tolist(), strict=True)):
        if helper and len(activities.waits_vertex):
            vertex, line = int(activities.waits_vertex[number]), int(activities.waits_line[number])
        else:
            line = int(activities.line[number])
        inside = vertex in below or (0 <= vertex < len(psg) and functions.get(psg.function_of(vertex)) == line)
        if inside and line in lines:
            found.append(number)
    rows = np.array(found, np.int64)
    return rows, own_by_activity(timeline, timeline.own.seconds)[rows]
