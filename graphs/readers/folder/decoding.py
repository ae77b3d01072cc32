"""How a record is read here: by the C extension, or by numpy where there is none."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.readers.folder.moved_sources import NOT_MOVED, Moved
from scalana.runtime.record.format import (
    SPAN_TYPE,
    STATE_CPU_UNKNOWN,
    STATE_RUNNING,
    Decoder,
    ProcessRecord,
    Shared,
    compiled_decoder,
)


@lru_cache(maxsize=1)
def decoder() -> Decoder:
    """What reads a file into columns."""
    compiled = compiled_decoder()
    if compiled is None:
        from scalana.graphs.readers.portable.portable_reader import read

        return read
    return compiled


def read_record(file: Path | str, shared: Shared, moved: Moved = NOT_MOVED) -> ProcessRecord:
    """One record, as an analysis reads it; ``moved`` says where its sources are.

    Raises:
        RecordError: it cannot be read, or is no record.
    """
    return place_rests(moved.record(ProcessRecord.read(file, shared, moved.decoder(decoder()))))


_AWAIT = SPAN_TYPE["await"]
_Columns = TypeVar("_Columns")


def place_rests(record: ProcessRecord) -> ProcessRecord:
    """The same record: samples of threads that rest in a span of type ``await`` have its path, and no such span is
    left. What runs meanwhile stays where it is."""
    spans = record.spans
    if not len(spans) and not len(record.span_totals):
        return record
    types = np.asarray(spans.type)
    rows = np.flatnonzero(types == _AWAIT)
    totals = np.asarray(record.span_totals.type) == _AWAIT
    if not len(rows) and not totals.any():
        return record
    samples = record.samples
    thread, time_ns, state = (np.asarray(column) for column in (samples.thread, samples.time_ns, samples.state))
    rests = (state & ~STATE_CPU_UNKNOWN) != STATE_RUNNING
    path = np.asarray(samples.path).astype(np.int64)
    start_ns, path_of = np.asarray(spans.start_ns)[rows].astype(np.int64), np.asarray(spans.path)[rows]
    end_ns = start_ns + np.asarray(spans.duration_ns)[rows]
    lanes = np.array([lane.thread for lane in record.lanes], np.int64)
    of_thread = lanes[np.asarray(spans.lane)[rows]]
    for number in np.unique(of_thread).tolist():
        mine = np.flatnonzero(of_thread == number)
        mine = mine[np.argsort(start_ns[mine], kind="stable")]
        seen = np.flatnonzero((thread == number) & rests)
        at = np.searchsorted(start_ns[mine], time_ns[seen], side="right") - 1
        inside = (at >= 0) & (time_ns[seen] <= end_ns[mine[np.maximum(at, 0)]])
        path[seen[inside]] = path_of[mine[at[inside]]]
    return replace(
        record,
        samples=replace(samples, path=_column(path)),
        spans=_kept(spans, types != _AWAIT),
        span_totals=_kept(record.span_totals, ~totals),
    )


def _kept(table: _Columns, rows: BoolArray) -> _Columns:
    """Some rows of a table."""
    columns = {each.name: getattr(table, each.name) for each in fields(table)}  # type: ignore[arg-type]
    return replace(  # type: ignore[type-var]
        table, **{name: _column(np.asarray(column)[rows]) for name, column in columns.items()}
    )


def _column(values: IntArray) -> memoryview[int]:
    return memoryview(np.ascontiguousarray(values).data)
