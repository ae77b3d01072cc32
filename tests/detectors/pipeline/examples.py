"""Costs and runs that several tests use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from scalana.detectors.pipeline.measured.replayable import ActionRows
from scalana.detectors.pipeline.model.actions import Program, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.lowering import Code, lower
from scalana.detectors.pipeline.model.simulate import Links, Setting, replay
from scalana.graphs.arrays.types import FloatArray


def uniform(stages: int, f: float = 1.0, b: float = 2.0, i: float = 1.0, w: float = 1.0) -> FloatArray:
    """The same costs for all stages ``[4, stages]``."""
    return np.repeat(np.array([[f], [b], [i], [w]]), stages, axis=1)


def rows_of(
    program: Program,
    costs: FloatArray,
    engine: str = "ideal",
    steps: int = 2,
    latency_s: float | FloatArray = 0.0,
    host_s: float = 0.0,
    between_s: float = 0.0,
    meet: bool = False,
    post_s: float = 0.0,
    late_s: float = 0.0,
) -> ActionRows:
    """What a recorder would see of some steps that really take these costs ``[4, stages(, microbatches)]``.

    ``latency_s`` may be a table by source and destination rank; ``post_s`` is what it takes to post messages, as
    recorders see it; the last messages of a step are late by ``late_s``.
    """
    operations = lower(program, ENGINES[engine])
    table = np.broadcast_to(np.asarray(latency_s, float), (program.ranks, program.ranks))
    setting = Setting.plain(operations, spread_costs(program, costs), Links.by_ranks(operations, table))
    setting.links.latency_s[-2:] += late_s
    setting.lead_s[operations.run] = host_s
    sends = operations.code == Code.SEND
    first = sends & ~np.concatenate([[False], sends[:-1]])
    setting.lead_s[first] = post_s
    parts, ready = [], np.zeros(program.ranks)
    for step in range(steps):
        setting.ready_s[:] = ready
        timeline = replay(operations, setting)
        # One batch is waited for as a whole.
        both = np.flatnonzero((operations.code[:-1] == Code.RECEIVE) & (operations.code[1:] == Code.RECEIVE))
        timeline.end_s[both] = timeline.end_s[both + 1]
        waits = operations.receive >= 0
        wait_begin = np.where(waits, timeline.begin_s[operations.enter], np.nan)
        wait_end = np.where(waits, timeline.end_s[operations.receive], np.nan)
        columns = (np.full(program.size, step), program.rank, program.kind, program.stage, program.microbatch)
        seconds = (timeline.action_begin_s, timeline.action_end_s, wait_begin, wait_end)
        sent = np.full(program.size, np.nan)
        if post_s:
            sent[operations.sender[operations.argument[sends]]] = timeline.end_s[sends]
            posted = np.full(program.size, np.nan)
            posts = np.flatnonzero(operations.code == Code.POST)
            posted[operations.receiver[operations.argument[posts]]] = timeline.begin_s[posts]
            seconds = (*seconds[:2], np.where(waits, posted, np.nan), seconds[3])
        parts.append((*columns, *seconds, program.joined, _send_waits(program, timeline), sent))
        ready = timeline.finish_s + between_s
        if meet:
            ready = np.full(program.ranks, ready.max())
    return ActionRows(*(np.concatenate(column) for column in zip(*parts)))


def one_after_the_other(steps: Sequence[ActionRows], between_s: float) -> ActionRows:
    """Rows of several times one step, each with its own costs, so long apart."""
    told, now_s = [], 0.0
    for number, rows in enumerate(steps):
        moments = {name: getattr(rows, name) + now_s for name in _MOMENTS}
        told.append(replace(rows, step=np.full(len(rows.step), number), **moments))
        now_s = float(told[-1].end_s.max()) + between_s
    return ActionRows(*(np.concatenate([getattr(one, column.name) for one in told]) for column in fields(ActionRows)))


_MOMENTS = ("begin_s", "end_s", "wait_begin_s", "wait_end_s", "sent_s")


def _send_waits(program: Program, timeline) -> FloatArray:
    """Waits for a message to be taken that a recorder sees by themselves, at the action after them."""
    operations = timeline.operations
    seconds = np.zeros(program.size)
    for at in np.flatnonzero(operations.code == Code.COMPLETE):
        after = int(np.searchsorted(operations.run, at))
        sender = program.rank[operations.sender[operations.argument[at]]]
        if after == program.size or program.rank[after] != sender:
            continue
        receive = operations.receive[after]
        if at < operations.enter[after] or receive < at:
            seconds[after] += timeline.end_s[at] - timeline.begin_s[at]
    return seconds
