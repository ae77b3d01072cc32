"""Samples of threads that collect garbage: a place of its own, not the line that happened to allocate."""

from __future__ import annotations

import linecache

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.columns.span_reading import SpanTable
from scalana.graphs.samples.inside import span_of_samples
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.runtime.record.format import SPAN_TYPE, Code

COLLECTOR = "garbage collection"
FILE = "<garbage collection>"
"""Stands for it where a file is expected."""
ON_PURPOSE = "gc.collect("
"""In a line that collects by itself: that is where to change something."""
OLDEST = 2
"""The generation of what stays, as Python numbers it: ``gc.freeze`` empties it."""
_CODE = Code(COLLECTOR, FILE, 0, 0, b"")


def collector_path(data: Gathered) -> int:
    """A call path that stands for the collector, new in the tree; -1 where nothing was collected. It has no parent: who
    allocates is not the cause."""
    return data.tree.add_root(_CODE) if len(_collections(data.spans)) else -1


def move_collected(data: Gathered, places: Places, psg: PSG, path: int) -> None:
    """Put the samples that were taken in collections at ``path`` (:func:`collector_path`), which gets a vertex of its
    own. Samples in collections that a line asks for stay there."""
    if path < 0:
        return
    places.vertex[path] = psg.add(VertexKind.FUNCTION, Place(FILE, 0, 0, -1, COLLECTOR), 0)
    places.line[path] = 0
    places.native[path] = places.computes[path] = False  # it was looked at as Python frames are
    psg.added.add(int(places.vertex[path]))
    inside = _inside(data, places, psg)
    if not inside.any():
        return
    if path > np.iinfo(data.samples.path.dtype).max:
        data.samples.path = data.samples.path.astype(np.int64)
    data.samples.path[inside] = path


def collector_vertex(psg: PSG) -> int:
    """The vertex that stands for the collector, -1 where there is none."""
    at = (index for index in psg[0].children if psg[index].place.file == FILE)
    return next(at, -1)


def _collections(table: SpanTable) -> IntArray:
    """Rows of the spans that are collections by threads."""
    rows = np.flatnonzero(table.type == SPAN_TYPE["collection"])
    return rows[table.lanes.thread[table.lane[rows]] >= 0] if len(rows) else rows


def _inside(data: Gathered, places: Places, psg: PSG) -> BoolArray:
    """Which samples lie in collections that came by themselves ``[samples]``."""
    table, samples = data.spans, data.samples
    rows = _collections(table)
    rows = rows[~_on_purpose(table.path[rows].astype(np.int64), places, psg)]
    return np.asarray(span_of_samples(table, rows, samples) >= 0)


def _on_purpose(path: IntArray, places: Places, psg: PSG) -> BoolArray:
    """Whether each of some paths is in a line that asks for a collection."""
    found = {}
    for one in np.unique(path).tolist():
        file, line = psg[int(places.vertex[one])].place.file, int(places.line[one])
        found[one] = line > 0 and ON_PURPOSE in linecache.getline(file, line)
    return np.array([found[one] for one in path.tolist()], np.bool_)
