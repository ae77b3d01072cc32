"""The spans of all processes as one set of columns, with run-wide numbers for lanes, names and call paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import ColumnTable, narrow
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.columns.stacked import Stack
from scalana.graphs.readers.folder.record_columns import Ints, Part
from scalana.runtime.record.format import ATTRIBUTE_TEXT

SpanRows = dict[str, IntArray]
"""How many rows of each table of spans a process has, each ``[processes]``: ``spans``, ``lanes``, ``attributes``, and
``names`` that it was the first to have."""


def _none(kind: npt.DTypeLike = np.int64) -> Any:
    return field(default_factory=lambda: np.zeros(0, kind))


@dataclass(slots=True)
class Lanes(ColumnTable):
    """What spans lie on: threads, streams of devices, slots of engines. Every process with spans has one for those of
    which it is not known."""

    process: Ints = _none()
    """Row in the list of processes ``[lanes]``."""
    rank: Ints = _none()
    """World rank to which the process belongs ``[lanes]``."""
    kind: Ints = _none()
    """``LANE_*`` ``[lanes]``."""
    thread: Ints = _none()
    """Row in the run's threads, -1 for none ``[lanes]``."""
    name: Ints = _none()
    """Row in the table of names ``[lanes]``."""
    location: Ints = _none()
    """Location of the timeline that the thread is, -1 for none ``[lanes]``."""


@dataclass(slots=True)
class SpanTable:
    """Spans of all processes, one process after the other. Integers may be narrow."""

    lane: Ints = _none()
    """Row in :attr:`lanes` ``[spans]``."""
    type: Ints = _none()
    """Number in ``SPAN_TYPES`` ``[spans]``."""
    name: Ints = _none()
    """Row in :attr:`names` ``[spans]``."""
    start_ns: IntArray = _none()
    """``[spans]``"""
    end_ns: IntArray = _none()
    """``[spans]``"""
    cpu_ns: Ints = _none()
    """CPU time of its thread in it, -1 where unknown ``[spans]``."""
    path: Ints = _none()
    """Run-wide call path ``[spans]``."""
    event: Ints = _none()
    """Id, later row, of the event whose side on a device it is, -1 for none ``[spans]``."""
    step: Ints = _none()
    """Number of the training step that it began in, -1 outside of any ``[spans]``."""
    first: IntArray = field(default_factory=lambda: np.zeros(1, np.int64))
    """``key[first[s]:first[s + 1]]`` are the attributes of span ``s``; ``[spans + 1]``."""
    key: Ints = _none()
    """Row in :attr:`names` ``[attributes]``."""
    tag: Ints = _none()
    """``ATTRIBUTE_*`` ``[attributes]``."""
    value: Ints = _none()
    """The number, the bits of the double, or the row of the text in :attr:`names` ``[attributes]``."""
    lanes: Lanes = field(default_factory=Lanes)
    names: list[str] = field(default_factory=list)
    """Of spans, lanes, keys and texts, each once ``[names]``."""

    def __len__(self) -> int:
        return len(self.type)


PER_SPAN = ("lane", "type", "name", "start_ns", "end_ns", "cpu_ns", "path", "event", "step")
PER_ATTRIBUTE = ("key", "tag", "value")
PER_LANE = tuple(column.name for column in fields(Lanes) if column.name != "location")


def stacked_spans(parts: Sequence[Part], thread_first: IntArray, rank: IntArray) -> tuple[SpanTable, SpanRows]:
    """The spans of some processes, in their order; ``event`` are ids.

    Args:
        parts: the processes; only those with spans count.
        thread_first: where the threads of each begin among those of the run ``[processes + 1]``.
        rank: world rank of each ``[processes]``.
    """
    speaking = [part for part in parts if len(part.record.spans)]
    names: dict[str, int] = {}
    own_names: list[Ints] = []
    lanes: list[tuple[int, int, int, int, int]] = []
    own_lanes: list[Ints] = []
    rows = {name: np.zeros(len(parts), np.int64) for name in ("names", "lanes", "spans", "attributes")}
    for part in speaking:
        record, known, number = part.record, len(names), part.number
        own_names.append(np.array([names.setdefault(name, len(names)) for name in record.names], np.int32))
        own_lanes.append(np.arange(len(lanes), len(lanes) + len(record.lanes), dtype=np.int32))
        for kind, thread, name in record.lanes:
            row = thread + int(thread_first[number]) if thread >= 0 else -1
            lanes.append((number, int(rank[number]), kind, row, names.setdefault(name, len(names))))
        counts = len(names) - known, len(record.lanes), len(record.spans), len(record.attributes)
        for table, count in zip(rows.values(), counts, strict=True):
            table[number] = count
    if not speaking:
        return SpanTable(), rows
    stack = Stack(speaking, [part.record.spans for part in speaking])
    attributes = Stack(speaking, [part.record.attributes for part in speaking])
    start = stack.integers("start_ns")
    event = stack.column("event")
    spans = SpanTable(
        lane=stack.translated("lane", own_lanes),
        type=stack.column("type"),
        name=stack.translated("name", own_names),
        start_ns=start,
        end_ns=start + stack.column("duration_ns"),
        cpu_ns=stack.column("cpu_ns"),
        path=stack.translated("path", [part.paths for part in speaking]),
        event=np.where(event > 0, event, -1).astype(event.dtype) if event.any() else np.full(len(start), -1, np.int8),
        step=stack.column("step"),
        first=np.append(0, stack.integers("last") + np.repeat(attributes.first[:-1], stack.count)),
        key=attributes.translated("key", own_names),
        tag=attributes.column("tag"),
        value=_values(attributes, own_names),
        lanes=Lanes(*np.array(lanes, np.int64).reshape(-1, len(PER_LANE)).T),
        names=list(names),
    )
    return spans, rows


def _values(stack: Stack, own_names: Sequence[Ints]) -> Ints:
    """Values of attributes; those that are texts as rows of the run's names."""
    value, texts = stack.integers("value"), np.flatnonzero(stack.column("tag") == ATTRIBUTE_TEXT)
    if len(texts):
        size = np.array([len(table) for table in own_names], np.int64)
        part = np.searchsorted(stack.first, texts, side="right") - 1
        local = value[texts]
        local[(local < 0) | (local >= size[part])] = 0
        value = value.copy()
        value[texts] = np.concatenate(own_names)[(np.cumsum(size) - size)[part] + local]
    return narrow(value)


def linked(spans: SpanTable, process: Ints, identity: Ints) -> None:
    """Replace ids of events by their rows, -1 where there is none. The events' processes and ids ``[events]``."""
    rows = np.flatnonzero(spans.event >= 0)
    if not len(rows):
        return
    width = int(max(identity.max(initial=0), spans.event.max())) + 1
    key = process.astype(np.int64) * width + identity
    order = np.argsort(key, kind="stable")
    wanted = spans.lanes.process[spans.lane[rows]].astype(np.int64) * width + spans.event[rows]
    row = order[np.minimum(np.searchsorted(key[order], wanted), len(order) - 1)] if len(order) else rows * 0
    found = key[row] == wanted if len(order) else np.zeros(len(rows), np.bool_)
    spans.event = np.full(len(spans), -1, np.int64)
    spans.event[rows[found]] = row[found]
    spans.event = narrow(spans.event)


@dataclass(slots=True)
class Moved:
    """The spans of some processes on their way into those of a run: where their rows go, and what they refer to."""

    spans: SpanTable
    at: IntArray
    """``[spans]``"""
    attributes_at: IntArray
    """``[attributes]``"""
    lanes_at: IntArray
    """``[lanes]``"""
    name: IntArray
    """Rows of names ``[names]``."""
    path: IntArray
    """Run-wide paths ``[paths]``."""
    event: IntArray
    """Rows of events, the last one -1 ``[events + 1]``."""
    process: IntArray
    """Numbers of processes ``[processes]``."""
    thread: IntArray
    """Rows of threads, the last one -1 ``[threads + 1]``."""


def merged(parts: Sequence[Moved], rows: SpanRows, names: list[str]) -> SpanTable:
    """Spans of several blocks as one table; ``rows`` are those of all processes of the run."""
    spans, attributes, lanes = (int(rows[name].sum()) for name in ("spans", "attributes", "lanes"))
    result = SpanTable(
        **{name: np.zeros(spans, np.int64) for name in PER_SPAN},
        **{name: np.zeros(attributes, np.int64) for name in PER_ATTRIBUTE},
        lanes=Lanes(*(np.zeros(lanes, np.int64) for _ in PER_LANE)),
        names=names,
    )
    size = np.zeros(spans, np.int64)
    for part in parts:
        table = part.spans
        to = {"lane": part.lanes_at, "name": part.name, "path": part.path, "event": part.event, "key": part.name}
        for columns, at in ((PER_SPAN, part.at), (PER_ATTRIBUTE, part.attributes_at)):
            for name in columns:
                values = getattr(table, name)
                getattr(result, name)[at] = to[name][values] if name in to else values
        texts = np.flatnonzero(table.tag == ATTRIBUTE_TEXT)
        result.value[part.attributes_at[texts]] = part.name[table.value[texts]]
        size[part.at] = np.diff(table.first)
        to = {"process": part.process, "thread": part.thread, "name": part.name}
        for name in PER_LANE:
            values = getattr(table.lanes, name)
            getattr(result.lanes, name)[part.lanes_at] = to[name][values] if name in to else values
    result.first = np.concatenate(([0], np.cumsum(size))).astype(np.int64)
    for name in (*PER_SPAN, *PER_ATTRIBUTE):
        setattr(result, name, narrow(getattr(result, name)))
    return result
