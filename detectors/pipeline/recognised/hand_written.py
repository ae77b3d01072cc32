"""Pipelines that no engine tells of, found by the messages between their ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from scalana.detectors.pipeline.advice import BEGAN_LATER, DOUBTFUL
from scalana.detectors.pipeline.measured.recorded import FORWARDS, Recorded, lie_inside, loading_windows
from scalana.detectors.pipeline.measured.reductions import after_backward, after_steps_s, find_reductions
from scalana.detectors.pipeline.measured.replayable import Between
from scalana.detectors.pipeline.measured.timed_modules import find_layers
from scalana.detectors.pipeline.model.engines import SendWait
from scalana.detectors.pipeline.recognised.between_messages import Events, PauseRows
from scalana.detectors.pipeline.recognised.hypotheses import Hypothesis, Known, evenest
from scalana.detectors.pipeline.recognised.message_groups import whole
from scalana.detectors.pipeline.recognised.messages import recognise_messages
from scalana.detectors.pipeline.recognised.recorded_messages import Messages, groups, pauses, sending, several_open
from scalana.detectors.thresholds.counts import SHOWS_THE_USUAL
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import OPERATIONS

_RECEIVES = np.array([row.code for row in OPERATIONS if row.name in ("recv", "wait")])


def read_hand_written(timeline: Timeline, spans: Spans, known: set[int], of_torch: bool = False) -> list[Recorded]:
    """The pipelines among ranks of which nothing else tells, with the steps that lie in the timeline, which may be of a
    part of the run.

    ``known`` are ranks of which something else tells, ``of_torch`` whether messages are those of torch alone.
    """
    run = timeline.whole or timeline
    found = []
    optimizes = set(np.unique(spans.rank[spans.rows("optimizer")]).tolist())
    for parts in groups(run):
        ranks = set(np.unique(np.concatenate((parts.source, parts.target))).tolist())
        if ranks & known or several_open(parts):
            continue
        beside = cache(partial(_pauses, parts, run, spans))
        evidence = Known(ranks <= optimizes, of_torch and not ranks & optimizes, partial(_meetings, beside), beside)
        pipeline, messages = recognised(parts, evidence)
        recorded = None if pipeline is None else _recorded(pipeline, messages, beside(), spans, timeline)
        if recorded is not None:
            found.append(recorded)
    return sorted(found, key=lambda one: one.ranks)


def recognised(parts: Messages, evidence: Known) -> tuple[Hypothesis | None, Messages]:
    """The pipeline that messages in parts are, and these as it has them."""
    able = [whole(parts)]
    if evidence.training:
        apart = whole(parts, alike=False)
        able += [apart] if len(apart.source) > len(able[0].source) else []
    found = [recognise_messages(messages.ends(), evidence) for messages in able]
    best = evenest(found, evidence)
    return best, able[next((at for at, one in enumerate(found) if one is best), 0)]


def _pauses(parts: Messages, run: Timeline, spans: Spans) -> PauseRows:
    return pauses(whole(parts), run, spans)


def _meetings(pauses_of: Callable[[], PauseRows]) -> dict[int, FloatArray]:
    return pauses_of().meetings()


def _recorded(
    pipeline: Hypothesis, messages: Messages, beside: PauseRows, spans: Spans, timeline: Timeline
) -> Recorded | None:
    """A pipeline of a run with its steps in a part of it; None if there are none."""
    run = timeline.whole or timeline
    read, ranks, steps = pipeline.read(beside), pipeline.ranks, len(pipeline.microbatches)
    rows, reductions = after_backward(read.rows, find_reductions(run, ranks))
    gradients = after_steps_s(rows, reductions, np.arange(steps), len(ranks))
    kept = lie_inside(read.windows_s[:, :, 0], read.windows_s[:, :, 1], ranks, timeline)
    kept[0] &= steps < SHOWS_THE_USUAL
    if not kept.any():
        return None
    between = read.between
    rows = rows.take(kept[rows.step])
    begin_s = float(rows.begin_s.min())
    rows = replace(rows, step=_numbers(read.windows_s, pipeline.beside)[rows.step])
    sends = sending(messages)
    if read.batched and int(rows.stage.max()) >= len(ranks):
        sends = replace(sends, batched=True, send_wait=SendWait.NEVER)
    if not sends.rendezvous:  # then a send waits for nobody: its time is the host's
        rows = replace(rows, send_wait_s=np.zeros(len(rows.step)))
    return Recorded(
        engine="messages",
        schedule=FORWARDS if pipeline.forwards_only else "",
        ranks=ranks,
        rows=rows,
        between=Between(
            between.enter_s[kept],
            between.data_s[kept],
            (between.gradients_s + gradients)[kept],
            between.optimizer_s[kept],
        ),
        windows_s=read.windows_s,
        met_s=_met(read.windows_s, beside, ranks),
        vertex=_vertex(ranks, timeline),
        layers=find_layers(spans, read.rows, ranks),
        sends=sends,
        loading_s=loading_windows(spans, ranks),
        doubtful=pipeline.doubtful,
        notes=(
            *((BEGAN_LATER.format(pipeline.first),) if pipeline.first and kept[0] else ()),
            *((DOUBTFUL,) if pipeline.doubtful else ()),
        ),
        reductions=find_reductions(timeline, ranks).since(begin_s),
    )


def _met(windows_s: FloatArray, beside: PauseRows, ranks: tuple[int, ...]) -> FloatArray:
    """The first meeting of every rank after a step and before the next one, NaN where not all have one ``[steps,
    places, 2]``."""
    found = np.full(windows_s.shape, np.nan)
    for place, rank in enumerate(ranks):
        mine = (beside.rank == rank) & beside.meets
        meetings = np.stack((beside.begin_s[mine], beside.end_s[mine]), axis=1)
        meetings = meetings[np.argsort(meetings[:, 0], kind="stable")]
        at = np.searchsorted(meetings[:, 0], windows_s[:, place, 1])
        there = at < np.searchsorted(meetings[:, 0], np.append(windows_s[1:, place, 0], np.inf))
        found[there, place] = meetings[at[there]]
    found[np.isnan(found).any(axis=(1, 2))] = np.nan
    return found


def _numbers(windows_s: FloatArray, beside: Events) -> IntArray:
    """Numbers of the steps, with one left out where there is an evaluation between two: they do not follow each other
    ``[steps]``."""
    begin = windows_s[:, 0, 0]
    after = np.searchsorted(begin, beside.begin_s[beside.place == 0])
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
