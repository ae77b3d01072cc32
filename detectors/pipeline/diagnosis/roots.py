"""Where waiting comes from: every wait walked back to its root, and the critical path of the whole.

From the end of a wait, step to the action that released it, on the other rank. Had that action waited itself, step on
to what released it, until one that had not: its stage is the root of the wait. What a message travelled on the way is
the link's, and what the host did before an action the host's, as far as it lies in the wait; the parts add up to the
wait. (Backtracking of ScalAna, SC 2020, and the direct and indirect wait states of Boehme et al., ICPP 2010, on a
replay.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scalana.detectors.pipeline.model.lowering import Code
from scalana.detectors.pipeline.model.sequence import CodeArray, RowArray
from scalana.detectors.pipeline.model.simulate import Setting, Timeline
from scalana.detectors.thresholds.shares import SLIGHT
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray

ShareArray = npt.NDArray[np.float32]
"""Shares of waits: there is a row for every wait of a run."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Seconds by what they were spent on. The last three columns are links, the host, and ranks that began late."""

    waiting_s: FloatArray
    """What each rank's waiting, its idle time at the end included, was for ``[ranks, stages + 3]``."""
    critical_s: FloatArray
    """What the critical path consists of ``[stages + 3]``; it adds up to the makespan."""

    def critical_share(self) -> FloatArray:
        """The share of the critical path that is computing of a stage ``[stages]``."""
        total = float(self.critical_s.sum())
        return self.critical_s[:-3] / total if total > 0 else np.zeros(len(self.critical_s) - 3)


class _Replayed(NamedTuple):
    """A replay, as compiled loops take it; operations have numbers, ``[operations]`` each unless something else is
    said."""

    first: IntArray
    """Where the operations of a rank begin ``[ranks + 1]``."""
    code: CodeArray
    argument: RowArray
    rank: RowArray
    stage: IntArray
    """``[actions]``"""
    sent: IntArray
    """By which operation a message is sent ``[messages]``."""
    posted: IntArray
    """By which its receive is posted; -1 for none ``[messages]``."""
    last_there: IntArray
    """By which the last rank came to a meeting ``[meetings]``."""
    begin_s: FloatArray
    end_s: FloatArray
    lead_s: FloatArray
    """What the host does before an operation."""


class _Known(NamedTuple):
    """Waits whose roots are known."""

    number: RowArray
    """Of an operation the row of its wait, -1 for none ``[operations]``."""
    roots: ShareArray
    """``[waits, stages + 3]``"""
    slight: float
    """The part of a wait below which another one is none of its causes."""


def find_roots(timeline: Timeline, setting: Setting) -> Roots:
    """Walk every wait of a replay back to its roots."""
    operations = timeline.operations
    program = operations.program
    index = np.arange(operations.size)
    sent = np.full(len(operations.sender), -1, np.int64)
    posted = sent.copy()
    for code, table in ((Code.SEND, sent), (Code.POST, posted)):
        chosen = operations.code == code
        table[operations.argument[chosen]] = index[chosen]
    replayed = _Replayed(
        operations.first,
        operations.code,
        operations.argument,
        np.repeat(np.arange(program.ranks, dtype=np.int32), np.diff(operations.first)),
        program.stage,
        sent,
        posted,
        _last_there(timeline),
        timeline.begin_s,
        timeline.end_s,
        setting.lead_s,
    )
    waiting, critical = _walk_all(replayed, program.stages, timeline.finish_s, setting.tail_s, SLIGHT)
    return Roots(waiting, critical)


def _last_there(timeline: Timeline) -> IntArray:
    """The operation by which the last rank came to a meeting ``[meetings]``."""
    operations = timeline.operations
    at = np.flatnonzero(operations.code == Code.MEET)
    last = np.full(operations.meetings, -1, np.int64)
    order = at[np.argsort(timeline.begin_s[at], kind="stable")]
    last[operations.argument[order]] = order
    return last


@compiled
def _walk(replayed: _Replayed, operation: int, now: float, until: float, into: FloatArray) -> None:
    """Hand the seconds from ``until`` to ``now`` out, going back from the end of an operation."""
    first, code, argument, rank_of, stage, sent, posted, last_there, begin_s, end_s, lead_s = replayed
    columns = len(into)
    i, rank = operation, rank_of[operation]
    while now > until:
        if i < first[rank]:
            into[columns - 1] += now - until
            return
        x = argument[i]
        if code[i] == 5 and end_s[i] > begin_s[i]:
            i = last_there[x]
            rank = rank_of[i]
            continue
        if code[i] >= 3 and code[i] < 5 and end_s[i] > begin_s[i]:
            # Released by the message, or, for a message that its receiver was not ready for, by that.
            j = sent[x]
            if posted[x] >= 0 and end_s[posted[x]] > end_s[j]:
                j = posted[x]
            if end_s[j] < now:
                into[columns - 3] += now - max(end_s[j], until)
                now = end_s[j]
            i = j
            rank = rank_of[j]
            continue
        if code[i] == 0:
            into[stage[x]] += now - max(begin_s[i], until)
        now = begin_s[i]
        if now <= until:
            return
        into[columns - 2] += now - max(now - lead_s[i], until)
        now -= lead_s[i]
        i -= 1


@compiled
def _spread(replayed: _Replayed, known: _Known, released: int, since: float, seconds: float, into: ShareArray) -> None:
    """Hand out the seconds of a wait that began at ``since`` by what the rank did that released it.

    Going back from the operation that released it: what was computed is its stage's; the time from the begin of a wait
    to where the walk stands goes where the seconds of that wait went: what the rank did after it, it did late for
    that.
    """
    first, code, argument, rank_of, stage, _, _, _, begin_s, end_s, lead_s = replayed
    number, roots, slight = known
    columns = len(into)
    last = first[rank_of[released]]
    until = end_s[released]
    window = until - since
    k, at = released, until
    own = np.zeros(columns, np.float32)
    while k >= last and end_s[k] > since and window > 0:
        waited = end_s[k] - max(begin_s[k], since) if code[k] >= 3 else 0.0
        if waited > slight * window and number[k] >= 0:
            part = np.float32(seconds * (at - max(begin_s[k], since)) / window)
            for column in range(columns):
                into[column] += part * roots[number[k], column]
            own[:] = 0
            at = max(begin_s[k], since)
        elif code[k] == 0:
            own[stage[argument[k]]] += end_s[k] - max(begin_s[k], since)
        host = min(begin_s[k], at) - max(begin_s[k] - lead_s[k], since)
        if host > 0:
            own[columns - 2] += host
        k -= 1
    # What is left was work of the rank itself, before its first wait in that time.
    rest = seconds * (at - since) / window if window > 0 else seconds
    total = own.sum()
    # An action that it was in when this wait began, and that had waited itself just before, was late for that.
    k_run = k + 1
    while k >= last and (code[k] == 1 or code[k] == 2):
        k -= 1
    before = end_s[k] - begin_s[k] if k >= last and code[k] >= 3 and number[k] >= 0 else 0.0
    if total > 0 and code[k_run] == 0 and before > slight * (end_s[k_run] - begin_s[k_run]):
        begun = min(end_s[k_run], at) - max(begin_s[k_run], since)
        computing = stage[argument[k_run]]
        own[computing] = max(own[computing] - begun, 0.0)
        for column in range(columns):
            into[column] += np.float32(rest * begun / total) * roots[number[k], column]
        into += np.float32(rest) * own / total
    elif total > 0:
        into += np.float32(rest) * own / total
    else:
        while released >= last and code[released] != 0:
            released -= 1
        into[columns - 1 if released < last else stage[argument[released]]] += rest


@compiled
def _walk_all(
    replayed: _Replayed, stages: int, finish_s: FloatArray, tail_s: FloatArray, slight: float
) -> tuple[FloatArray, FloatArray]:
    """Waiting of every rank by root, and the critical path."""
    first, code, argument, rank_of, _, sent, posted, last_there, begin_s, end_s, _ = replayed
    ranks = len(first) - 1
    waiting = np.zeros((ranks, stages + 3))
    critical = np.zeros(stages + 3)
    last = int(np.argmax(finish_s))
    final = finish_s[last]
    critical[stages + 1] += tail_s[last]
    _walk(replayed, first[last + 1] - 1, final - tail_s[last], 0.0, critical)
    # Waits in the order of their ends: what a wait is rooted in is known before another one leads to it.
    waits = np.flatnonzero((code >= 3) & (end_s > begin_s))
    waits = waits[np.argsort(end_s[waits], kind="mergesort")]
    number = np.full(len(code), -1, np.int32)
    roots = np.zeros((len(waits), stages + 3), np.float32)
    known = _Known(number, roots, slight)
    for n in range(len(waits)):
        i = waits[n]
        x = argument[i]
        j = last_there[x] - 1 if code[i] == 5 else sent[x]
        if code[i] < 5 and posted[x] >= 0 and end_s[posted[x]] > end_s[j]:
            j = posted[x]
        length = end_s[i] - begin_s[i]
        travelled = min(length, max(end_s[i] - max(end_s[j], begin_s[i]), 0.0)) if code[i] < 5 else 0.0
        roots[n, stages] += travelled / length
        _spread(replayed, known, j, begin_s[i], (length - travelled) / length, roots[n])
        number[i] = n
        waiting[rank_of[i]] += length * roots[n]
    idle_roots = np.zeros(stages + 3, np.float32)
    for rank in range(ranks):
        idle = final - finish_s[rank]
        if idle > 0:
            of_tail = min(idle, tail_s[last])
            waiting[rank, stages + 1] += of_tail
            if idle > of_tail:
                idle_roots[:] = 0
                _spread(replayed, known, first[last + 1] - 1, finish_s[rank], 1.0, idle_roots)
                waiting[rank] += (idle - of_tail) * idle_roots
    return waiting, critical
