"""Actions of pipelines as devices did them, on the steps on which they were marked there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable, to_seconds
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.actions import KINDS, Actions
from scalana.graphs.spans.nearest import latest, numbered_keys
from scalana.graphs.spans.span_columns import Spans

_SLACK_NS = 1_000_000
"""How far a mark may lie outside of the host's action that it was recorded in: clocks are read one after the other."""


@dataclass(frozen=True, slots=True)
class OnDevices(ColumnTable):
    """When devices did some actions; NaN where that was not marked, ``[actions]`` all."""

    begin_s: FloatArray
    """When the stream came to the action, after the wait for its input."""
    end_s: FloatArray
    launched_s: FloatArray
    """When the host had launched what lies before the action: it recorded the mark at the begin."""


def uses_device(spans: Spans, ranks: tuple[int, ...]) -> bool:
    """Whether some ranks were seen to use a device."""
    return bool(np.isin(spans.lanes.rank[spans.device_lanes()], ranks).any())


def on_devices(spans: Spans, actions: Actions) -> OnDevices:
    """What was marked of some actions: the host recorded the mark within its own part of the action."""
    marks = _marks(spans)
    kind = np.full(len(spans.names) + 1, -1, np.int64)
    for code, name in enumerate(KINDS):
        kind[spans.number(name)] = code
    stage, microbatch = spans.integers("stage"), spans.integers("microbatch")
    of_mark = np.stack((spans.process[marks], kind[spans.table.name[marks]], stage[marks], microbatch[marks]))
    of_host = np.stack((spans.process[actions.span], actions.kind, actions.stage, actions.microbatch))
    known = np.flatnonzero(of_mark.min(axis=0) >= 0)
    marks, of_mark = marks[known], of_mark[:, known]
    key = numbered_keys(*np.concatenate((of_host, of_mark), axis=1))
    start, end = (column.astype(np.int64) for column in (spans.table.start_ns, spans.table.end_ns))
    launched = start[marks] - spans.integers("queued_ns", 0)[marks]
    count = len(actions)
    host = latest(key[:count], start[actions.span], key[count:], launched + _SLACK_NS)
    if count:
        host = np.where(launched <= end[actions.span[host]] + _SLACK_NS, host, -1)
    seen = np.flatnonzero(host >= 0)
    begin_s, end_s, launched_s = (np.full(count, np.nan) for _ in range(3))
    at, marks = host[seen], marks[seen]
    begin_s[at], end_s[at], launched_s[at] = (to_seconds(t) for t in (start[marks], end[marks], launched[seen]))
    return OnDevices(begin_s, end_s, launched_s)


def _marks(spans: Spans) -> IntArray:
    """Rows of the spans of devices that are actions."""
    action = spans.number("action")
    rows = np.flatnonzero(spans.device_lanes()[spans.table.lane])
    return rows[(spans.texts("kind")[rows] == action) & (action >= 0)]
