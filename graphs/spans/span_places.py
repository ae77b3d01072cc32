"""Spans at the vertices of a program's structure, and what they add up to there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import narrow, to_seconds
from scalana.graphs.arrays.shards import chunks
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.metrics import add_to
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.columns.span_reading import SpanTable
from scalana.graphs.readers.folder.record_columns import Ints
from scalana.graphs.spans.span_columns import Spans


def place_spans(table: SpanTable, places: Places, call_of_event: npt.NDArray[np.integer]) -> Spans:
    """The spans of a run with their vertices, and with the calls ``[events]`` whose side on a device they are."""
    vertex: Ints = narrow(places.vertex)[table.path]
    call = np.full(len(table), -1, np.int8)
    known = np.flatnonzero(table.event >= 0)
    if len(known):
        call = np.full(len(table), -1, call_of_event.dtype)
        call[known] = call_of_event[table.event[known]]
    return Spans(table, vertex, call, narrow(places.line)[table.path])


def add_spans(metrics: dict[str, FloatArray], spans: Spans, data: Gathered, places: Places) -> None:
    """Add the spans to the metrics ``span_s`` and ``spans`` at the vertices where they began, each ``[vertices,
    ranks]``. Of processes that did not write all of theirs, their exact totals are what counts."""
    table, lanes, totals, rank = spans.table, spans.lanes, data.span_totals, data.rank
    whole = np.ones(len(rank), np.bool_)
    whole[totals.process] = False
    for rows in chunks(len(spans)):
        process = lanes.process[table.lane[rows]]
        counts = whole[process]
        seconds = to_seconds(table.end_ns[rows] - table.start_ns[rows])
        add_to(metrics["span_s"], spans.vertex[rows], rank[process], np.where(counts, seconds, 0))
        add_to(metrics["spans"], spans.vertex[rows], rank[process], counts.astype(np.float64))
    vertex = places.vertex[totals.path]
    add_to(metrics["span_s"], vertex, rank[totals.process], to_seconds(totals.wall_ns))
    add_to(metrics["spans"], vertex, rank[totals.process], totals.spans.astype(np.float64))
