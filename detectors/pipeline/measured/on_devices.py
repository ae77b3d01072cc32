"""Pipelines whose actions run on devices: hosts only launch these, and are ahead of them.

Actions have the times that were marked on the devices' streams. Between two actions a stream waits for a message, or
has nothing to do because its host has not launched more; what is neither known to be the one nor the other is nobody's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.advice import ON_DEVICES, ON_HOSTS
from scalana.detectors.pipeline.measured.recorded import Recorded, known_layers
from scalana.detectors.pipeline.measured.replayable import ActionRows, Between
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.reconcile import Extent
from scalana.detectors.thresholds.seconds import AT_ONCE_S
from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.actions import Actions, Pipeline
from scalana.graphs.spans.device_actions import OnDevices, on_devices, uses_device
from scalana.graphs.spans.span_columns import Spans


def with_devices(recorded: Recorded, pipeline: Pipeline, spans: Spans) -> Recorded:
    """A pipeline with the times of its devices, as far as it ran on some; ``recorded`` has those of its hosts."""
    if not uses_device(spans, recorded.ranks):
        return recorded
    numbers = np.unique(recorded.rows.step)
    actions = pipeline.actions.take(np.isin(pipeline.actions.step, numbers))
    seen = on_devices(spans, actions)
    whole = _whole(actions.step, ~np.isnan(seen.begin_s))
    if not whole.any():
        return hosts_only(recorded)
    actions, seen = actions.take(whole), seen.take(whole)
    steps, step = np.unique(actions.step, return_inverse=True)
    rows, order = _rows(actions, seen, step.reshape(-1), _losses(actions, spans), int(actions.stage.max()))
    return replace(
        recorded,
        rows=rows,
        between=Between.nothing(len(steps), len(recorded.ranks)),
        layers=None if pipeline.device_layers is None else known_layers(pipeline.device_layers),
        notes=(*recorded.notes, ON_DEVICES.format(len(steps), len(numbers))),
        on_device=True,
        stands_for=len(numbers),
        numbers=steps,
        hosts_s=np.stack((actions.begin_s, actions.end_s), axis=1)[order],
        reductions=np.zeros(0, np.int64),
    )


def hosts_only(recorded: Recorded) -> Recorded:
    """A pipeline on devices of which only the hosts were seen: what they do between actions costs nobody anything that
    is known."""
    rows, ranks = recorded.rows, len(recorded.ranks)
    nothing = np.zeros(len(rows.step))
    return replace(
        recorded,
        rows=replace(rows, sent_s=nothing + np.nan, data_s=nothing, gradients_s=nothing, host_most_s=nothing),
        between=Between.nothing(len(np.unique(rows.step)), ranks),
        layers=None,
        notes=(*recorded.notes, ON_HOSTS),
        reductions=np.zeros(0, np.int64),
    )


def extents(pipeline: Pipeline, spans: Spans) -> list[Extent]:
    """What the devices of a pipeline were seen to do, from the first action of a step to the last."""
    actions = pipeline.actions
    seen, numbers = on_devices(spans, actions), pipeline.runs.number
    windows = np.full((len(pipeline.ranks), len(numbers), 2), np.nan)
    at = actions.rank, np.searchsorted(numbers, actions.step)
    np.fmin.at(windows[:, :, 0], at, seen.begin_s)
    np.fmax.at(windows[:, :, 1], at, seen.end_s)
    whole = ~np.isnan(windows).any(axis=2)
    return [
        Extent((rank,), windows_s=joined(windows[place][whole[place]]), on_device=True)
        for place, rank in enumerate(pipeline.ranks)
    ]


def _whole(step: IntArray, marked: BoolArray) -> BoolArray:
    """Which actions are of a step that has all of them marked, on all its ranks ``[actions]``."""
    return np.asarray(~np.isin(step, step[~marked]))


def _losses(actions: Actions, spans: Spans) -> BoolArray:
    """After which actions the loss is computed ``[actions]``."""
    return np.asarray((actions.kind == Kind.F) & (actions.end_s > spans.end_s(actions.span)))


def _rows(actions: Actions, seen: OnDevices, step: IntArray, loss: BoolArray, last: int) -> tuple[ActionRows, IntArray]:
    """The actions as devices did them, steps one behind the other, and where each stands among ``actions``.

    What lies between two steps is left out: all ranks begin a step when the first action of it does.
    """
    order = np.lexsort((seen.begin_s, actions.rank, step))
    actions, seen, step, loss = actions.take(order), seen.take(order), step[order], loss[order]
    steps = int(step.max()) + 1
    opens, closes = np.full(steps, np.inf), np.full(steps, -np.inf)
    np.minimum.at(opens, step, seen.begin_s)
    np.maximum.at(closes, step, seen.end_s)
    moved = np.append(0.0, np.cumsum(closes - opens)[:-1])

    def along(moment_s: FloatArray) -> FloatArray:
        return np.asarray(moment_s - opens[step] + moved[step])

    begin, end, launched = along(seen.begin_s), along(seen.end_s), along(seen.launched_s)
    first = np.ones(len(step), bool)
    first[1:] = (step[1:] != step[:-1]) | (actions.rank[1:] != actions.rank[:-1])
    receives = _receives(actions, last)
    end = _with_loss(end, begin, launched, loss & ~np.append(first[1:], True) & ~np.append(receives[1:], True))
    before = np.where(first, moved[step], np.append(0.0, end[:-1]))
    before = np.minimum(before, begin)
    # The host's own wait for the message, as far as the device had nothing to do but to wait for the host.
    asked, got = along(actions.wait_begin_s), along(actions.wait_end_s)
    blocked = receives & ~np.isnan(asked)
    wait_begin = np.where(blocked, np.clip(asked, before, begin), before)
    late = np.where(launched >= begin - AT_ONCE_S, launched - np.fmax(before, got), 0.0)
    late = np.where(receives, np.where(blocked, late, 0.0), launched - before)
    late = np.clip(late, 0.0, begin - wait_begin)
    missing = np.full(len(step), np.nan)
    nothing = np.zeros(len(step))
    rows = ActionRows(
        step=step,
        rank=actions.rank,
        kind=actions.kind,
        stage=actions.stage,
        microbatch=actions.microbatch,
        begin_s=begin,
        end_s=end,
        wait_begin_s=np.where(receives, wait_begin, missing),
        wait_end_s=np.where(receives, begin - late, missing),
        joined=actions.joined,
        send_wait_s=nothing,
        host_most_s=late + np.where(receives, wait_begin - before, 0.0),
    )
    return rows, order


def _receives(actions: Actions, last: int) -> BoolArray:
    """Which actions need a message of another rank ``[actions]``."""
    holder = np.full(last + 3, -1, np.int64)
    holder[actions.stage + 1] = actions.rank
    beside = np.where(actions.kind == Kind.F, actions.stage - 1, actions.stage + 1)
    other = holder[beside + 1]
    return np.asarray((actions.kind != Kind.W) & (other >= 0) & (other != actions.rank))


def _with_loss(end_s: FloatArray, begin_s: FloatArray, launched_s: FloatArray, loss: BoolArray) -> FloatArray:
    """Ends of actions, those of forwards with the loss as far as the device was busy with it: its host had launched all
    that comes before the next action, which needs no message, by then."""
    following = np.append(begin_s[1:], np.inf)
    busy = loss & (np.append(launched_s[1:], np.inf) <= end_s)
    return np.where(busy, np.maximum(end_s, following), end_s)
