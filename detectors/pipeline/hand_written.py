"""Pipelines that no engine tells of, found by the messages between their ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.between_messages import Events
from scalana.detectors.pipeline.measured import Between
from scalana.detectors.pipeline.messages import HandWritten, recognise_messages
from scalana.detectors.pipeline.recorded import Recorded, loading_windows
from scalana.detectors.pipeline.recorded_messages import Messages, groups, pauses, sending
from scalana.detectors.pipeline.reductions import after_backward, after_steps_s, find_reductions
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.columns import Spans
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import OPERATIONS

SET_ASIDE = 3
"""Steps from which the first is set aside: nothing tells when its first forward began."""
_RECEIVES = np.array([row.code for row in OPERATIONS if row.name in ("recv", "wait")])


def read_hand_written(timeline: Timeline, spans: Spans, known: set[int]) -> list[Recorded]:
    """The pipelines among ranks of which nothing else tells; ``known`` are those of which something does."""
    found = []
    optimizes = set(np.unique(spans.rank[spans.rows("optimizer")]).tolist())
    for messages in groups(timeline):
        ranks = set(np.unique(np.concatenate((messages.source, messages.target))).tolist())
        if ranks & known:
            continue
        pipeline = recognise_messages(messages.ends(), ranks <= optimizes)
        if pipeline is not None:
            found.append(_recorded(pipeline, messages, timeline, spans))
    return sorted(found, key=lambda one: one.ranks)


def _recorded(pipeline: HandWritten, messages: Messages, timeline: Timeline, spans: Spans) -> Recorded:
    read, steps = pipeline.read(pauses(messages, timeline, spans)), len(pipeline.microbatches)
    rows, reductions = after_backward(read.rows, find_reductions(timeline, pipeline.ranks))
    gradients = after_steps_s(rows, reductions, np.arange(steps), len(pipeline.ranks))
    first = 1 if steps >= SET_ASIDE else 0
    between = read.between
    rows = rows.take(rows.step >= first)
    rows = replace(rows, step=_numbers(read.windows_s, pipeline.beside)[rows.step])
    return Recorded(
        engine="messages",
        schedule="",
        ranks=pipeline.ranks,
        rows=rows,
        between=Between(
            between.enter_s[first:],
            between.data_s[first:],
            (between.gradients_s + gradients)[first:],
            between.optimizer_s[first:],
        ),
        windows_s=read.windows_s,
        vertex=_vertex(pipeline.ranks, timeline),
        layers=None,
        sends=sending(messages),
        loading_s=loading_windows(spans, pipeline.ranks),
        reductions=reductions.since(float(rows.begin_s.min())),
    )


def _numbers(windows_s: FloatArray, beside: Events) -> IntArray:
    """Numbers of the steps, with one left out where there is an evaluation between two: they do not follow each other
    ``[steps]``."""
    begin = windows_s[:, 0, 0]
    after = np.searchsorted(begin, beside.begin_s[beside.stage == 0])
    apart = np.bincount(after, minlength=len(begin) + 1)[: len(begin)] > 0
    return np.asarray(np.arange(len(begin)) + np.cumsum(apart) - int(apart[:1].sum()), np.int64)


def _vertex(ranks: tuple[int, ...], timeline: Timeline) -> int:
    """Where most time is spent in receiving."""
    calls = timeline.calls
    rank = timeline.locations.rank[calls.location]
    chosen = np.isin(rank, ranks) & np.isin(calls.operation, _RECEIVES)
    if not chosen.any():
        return -1
    seconds = calls.exit_s[chosen] - calls.enter_s[chosen]
    return int(np.bincount(calls.vertex[chosen], seconds).argmax())
