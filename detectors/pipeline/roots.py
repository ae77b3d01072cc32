"""Where waiting comes from: every wait walked back to its root, and the critical path of the whole.

From the end of a wait, step to the action that released it, on the other rank. Had that action waited itself, step on
to what released it, until one that had not: its stage is the root of the wait. What a message travelled on the way is
the link's, and what the host did before an action the host's, as far as it lies in the wait; the parts add up to the
wait. (Backtracking of ScalAna, SC 2020, and the direct and indirect wait states of Boehme et al., ICPP 2010, on a
replay.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from scalana.detectors.pipeline.actions import FloatArray, IntArray
from scalana.detectors.pipeline.lowering import Code, CodeArray, RowArray
from scalana.detectors.pipeline.simulate import Setting, Timeline

_SHORT = 0.05
"""An action whose wait was a smaller part of it than this had not waited."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Seconds by what they were spent on. The last three columns are links, the host, and ranks that began late."""

    waiting_s: FloatArray
    """What each rank's waiting, its idle time at the end included, was for ``[ranks, stages + 3]``."""
    critical_s: FloatArray
    """What the critical path consists of ``[stages + 3]``; it adds up to the makespan."""

    def stage_share(self) -> FloatArray:
        """The share of all waiting that is rooted in a stage ``[stages]``."""
        total = float(self.waiting_s.sum())
        return self.waiting_s[:, :-3].sum(axis=0) / total if total > 0 else np.zeros(self.waiting_s.shape[1] - 3)

    def critical_share(self) -> FloatArray:
        """The share of the critical path that is computing of a stage ``[stages]``."""
        total = float(self.critical_s.sum())
        return self.critical_s[:-3] / total if total > 0 else np.zeros(len(self.critical_s) - 3)


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
    waiting, critical = _walk_all(
        operations.first,
        operations.code,
        operations.argument,
        program.stage,
        program.stages,
        sent,
        posted,
        _last_there(timeline),
        timeline.begin_s,
        timeline.end_s,
        setting.lead_s,
        timeline.finish_s,
        setting.tail_s,
    )
    return Roots(waiting, critical)


def _last_there(timeline: Timeline) -> IntArray:
    """The operation by which the last rank came to a meeting ``[meetings]``."""
    operations = timeline.operations
    at = np.flatnonzero(operations.code == Code.MEET)
    last = np.full(operations.meetings, -1, np.int64)
    order = at[np.argsort(timeline.begin_s[at], kind="stable")]
    last[operations.argument[order]] = order
    return last


@numba.njit(cache=True)
def _walk(
    operation: int,
    rank: int,
    now: float,
    until: float,
    first: IntArray,
    code: CodeArray,
    argument: RowArray,
    stage: IntArray,
    rank_of: RowArray,
    sent: IntArray,
    posted: IntArray,
    last_there: IntArray,
    begin_s: FloatArray,
    end_s: FloatArray,
    lead_s: FloatArray,
    into: FloatArray,
) -> None:
    """Hand the seconds from ``until`` to ``now`` out, going back from the end of an operation."""
    columns = len(into)
    i = operation
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


@numba.njit(cache=True)
def _hand_out(
    operation: int,
    seconds: float,
    first: IntArray,
    code: CodeArray,
    argument: RowArray,
    stage: IntArray,
    rank_of: RowArray,
    sent: IntArray,
    posted: IntArray,
    last_there: IntArray,
    begin_s: FloatArray,
    end_s: FloatArray,
    lead_s: FloatArray,
    into: FloatArray,
) -> None:
    """Hand the seconds of a wait to its root. ``operation`` is the wait, or the last operation of who was waited
    for."""
    columns = len(into)
    left = seconds
    i = operation
    while left > 0:
        j = i
        if code[i] == 5 and end_s[i] > begin_s[i]:
            j = last_there[argument[i]]
        elif code[i] >= 3 and end_s[i] > begin_s[i]:
            x = argument[i]
            j = sent[x]
            if posted[x] >= 0 and end_s[posted[x]] > end_s[j]:
                j = posted[x]
            part = min(left, max(end_s[i] - max(end_s[j], begin_s[i]), 0.0))
            into[columns - 3] += part
            left -= part
        # Back to the action before, then to the wait that it began with.
        last, run = first[rank_of[j]], -1
        k = j if code[j] < 5 else j - 1
        while k >= last:
            part = min(left, lead_s[k])
            into[columns - 2] += part
            left -= part
            if code[k] == 0 and run >= 0:
                k = last - 1
                break
            if code[k] == 0:
                run = k
            elif code[k] >= 3:
                waited = end_s[k] - begin_s[k]
                if waited > 0 and (run < 0 or waited > _SHORT * (end_s[run] - begin_s[run])):
                    break
            k -= 1
        if k < last:
            into[columns - 1 if run < 0 else stage[argument[run]]] += left
            return
        i = k


@numba.njit(cache=True)
def _walk_all(
    first: IntArray,
    code: CodeArray,
    argument: RowArray,
    stage: IntArray,
    stages: int,
    sent: IntArray,
    posted: IntArray,
    last_there: IntArray,
    begin_s: FloatArray,
    end_s: FloatArray,
    lead_s: FloatArray,
    finish_s: FloatArray,
    tail_s: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Waiting of every rank by root, and the critical path."""
    ranks = len(first) - 1
    rank_of = np.empty(len(code), np.int32)
    for rank in range(ranks):
        rank_of[first[rank] : first[rank + 1]] = rank
    waiting = np.zeros((ranks, stages + 3))
    critical = np.zeros(stages + 3)
    last = int(np.argmax(finish_s))
    final = finish_s[last]
    critical[stages + 1] += tail_s[last]
    _walk(
        first[last + 1] - 1, last, final - tail_s[last], 0.0, first, code, argument, stage, rank_of, sent, posted,
        last_there, begin_s, end_s, lead_s, critical,
    )  # fmt: skip
    for rank in range(ranks):
        for i in range(first[rank], first[rank + 1]):
            if code[i] >= 3 and end_s[i] > begin_s[i]:
                _hand_out(
                    i, end_s[i] - begin_s[i], first, code, argument, stage, rank_of, sent, posted, last_there,
                    begin_s, end_s, lead_s, waiting[rank],
                )  # fmt: skip
        idle = final - finish_s[rank]
        if idle > 0:
            of_tail = min(idle, tail_s[last])
            waiting[rank, stages + 1] += of_tail
            _hand_out(
                first[last + 1] - 1, idle - of_tail, first, code, argument, stage, rank_of, sent, posted, last_there,
                begin_s, end_s, lead_s, waiting[rank],
            )  # fmt: skip
    return waiting, critical
