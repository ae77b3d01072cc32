"""Two ranks of which one sends tensors to the other, and nothing comes back: forwards of a pipeline, or a producer and
its consumer. Nothing tells which it is, so no pipeline is told; but either way the second one has nothing to do until
the first tensor has come, and the first one nothing more when the last one has gone. That is nobody's fault, as long as
making the first one and using up the last one takes no longer than others do.
"""

from __future__ import annotations

import numpy as np

from scalana.detectors.pipeline.recognised.message_groups import whole
from scalana.detectors.pipeline.recognised.recorded_messages import Messages, groups, pauses
from scalana.detectors.reconcile import Extent
from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD
from scalana.detectors.thresholds.seconds import NO_WORK_S
from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline


def fill_and_drain(timeline: Timeline, spans: Spans, known: set[int]) -> list[Extent]:
    """What two ranks do while one of them cannot do anything yet, or any more; ``known`` are ranks of which something
    else tells. Messages are torch's."""
    run = timeline.whole or timeline
    aside = known | set(np.unique(spans.rank[spans.rows("optimizer")]).tolist())
    found: list[Extent] = []
    for parts in groups(run):
        ranks = set(np.unique(np.concatenate((parts.source, parts.target))).tolist())
        if len(ranks) == 2 and not ranks & aside and len(np.unique(parts.source)) == 1:
            messages = whole(parts)
            if len(messages.source) >= SHOWS_THE_SPREAD:
                found += _of(messages, pauses(messages, run, spans).meetings())
    return found


def _of(messages: Messages, met_s: dict[int, FloatArray]) -> list[Extent]:
    """The same of all messages from one rank to another."""
    source, target = int(messages.source[0]), int(messages.target[0])
    step = np.searchsorted(met_s.get(source, np.zeros(0)), messages.sent_s)
    if not np.array_equal(step, np.searchsorted(met_s.get(target, np.zeros(0)), messages.came_s)):
        return []  # they do not meet each other between the same messages
    same = step[1:] == step[:-1]
    made_s = messages.sent_s[1:] - messages.passed_s[:-1]
    used_s = messages.asked_s[1:] - messages.came_s[:-1]
    usual_s = [float(np.median(lengths[same])) if same.any() else 0.0 for lengths in (made_s, used_s)]
    if min(usual_s) < NO_WORK_S:  # one of them computes nothing
        return []
    first, last = np.flatnonzero(np.append(True, ~same)), np.flatnonzero(np.append(~same, True))
    fill, drain = messages.sent_s[first], messages.came_s[last]
    none: IntArray = np.zeros(0, np.int64)
    return [
        Extent((source,), vertices=none, windows_s=joined(np.stack((fill - usual_s[0], fill), axis=1))),
        Extent((target,), vertices=none, windows_s=joined(np.stack((drain, drain + usual_s[1]), axis=1))),
    ]
