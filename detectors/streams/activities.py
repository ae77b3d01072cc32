"""Whatever devices and hosts were seen to do: spans and samples, and what kinds of work these are."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from scalana.detectors.streams.stretches import Stretches, without_overlap
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.host import HostActivity
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.structure.psg import PSG


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of work, of devices and of hosts."""

    vertex: IntArray
    """``[kinds of work]``"""
    name: IntArray
    """Row in :attr:`names` ``[kinds of work]``."""
    inputs: IntArray
    """Row in the names of the shapes that it is given, -1 where they are not known ``[kinds of work]``."""
    direction: IntArray
    """Of a module: row in the names of the way in which it was called, else -1 ``[kinds of work]``."""
    root: IntArray
    """Of a module: row in the names of the class of its model, else -1 ``[kinds of work]``."""
    of: IntArray
    """Of a module: row in the names of its class, else -1 ``[kinds of work]``."""
    names: list[str]

    def __len__(self) -> int:
        return len(self.name)

    def text(self, kind: int) -> str:
        """The name of a kind of work."""
        name = self.names[int(self.name[kind])]
        if self.direction[kind] < 0 or self.of[kind] < 0:
            return name
        module = f"{name} ({self.names[int(self.of[kind])]})" if name else self.names[int(self.of[kind])]
        return f"the {self.names[int(self.direction[kind])]} of module {module}"

    def module(self, kind: int) -> tuple[str, str, str] | None:
        """Of a module: class of its model, its name, and its class; None of all else."""
        if self.direction[kind] < 0 or self.of[kind] < 0:
            return None
        root = self.names[int(self.root[kind])] if self.root[kind] >= 0 else ""
        return root, self.names[int(self.name[kind])], self.names[int(self.of[kind])]


@dataclass(slots=True)
class Doings:
    """What devices and hosts did, from spans and samples."""

    rank: IntArray
    start_s: FloatArray
    end_s: FloatArray
    what: IntArray
    """Kind of work ``[doings]``."""
    on_device: BoolArray
    thread: IntArray
    """Of the host, -1 for the device ``[doings]``."""
    span: IntArray
    """Row of the span, -1 for samples ``[doings]``."""

    def of(self, rows: IntArray) -> Stretches:
        """Some of them, without overlap."""
        return without_overlap(self.start_s[rows], self.end_s[rows], self.what[rows])


def doings_of(spans: Spans, host: HostActivity, psg: PSG) -> tuple[Doings, Kinds]:
    """All of them, and the kinds of work that they are."""
    on_device, active = spans.device_lanes()[spans.table.lane], spans.activity_lanes()[spans.table.lane]
    rows = np.flatnonzero((on_device & ~_on_some_ranks(spans, on_device) & ~_of_layers(spans)) | active)
    names = list(spans.names)
    places, place_of = np.unique(host.vertex, return_inverse=True)
    name_of = np.arange(len(places), dtype=np.int64) + len(names)
    names += [_text(psg, vertex) for vertex in places.tolist()]
    vertex = np.concatenate((_vertices(spans, rows), host.vertex))
    name = np.concatenate((spans.table.name[rows].astype(np.int64), name_of[place_of]))
    inputs = np.concatenate((spans.texts("inputs")[rows], np.full(len(host), -1)))
    of_module = [
        np.concatenate((np.where(on_device[rows], spans.texts(told)[rows], -1), np.full(len(host), -1)))
        for told in ("direction", "root", "class")
    ]
    kinds, what = np.unique(np.stack((vertex, name, inputs, *of_module)), axis=1, return_inverse=True)
    lane = spans.table.lane[rows].astype(np.int64)
    thread = np.where(on_device[rows], -1, spans.lanes.thread[lane].astype(np.int64) if len(lane) else lane)
    doings = Doings(
        np.concatenate((spans.rank[rows], host.rank)),
        np.concatenate((spans.start_s(rows), host.start_s)),
        np.concatenate((spans.end_s(rows), host.end_s)),
        what.reshape(-1).astype(np.int64),
        np.concatenate((on_device[rows], np.zeros(len(host), np.bool_))),
        np.concatenate((thread, host.thread)),
        np.concatenate((rows, np.full(len(host), -1))),
    )
    return doings, Kinds(kinds[0], kinds[1], kinds[2], kinds[3], kinds[4], kinds[5], names)


def _on_some_ranks(spans: Spans, on_device: BoolArray) -> BoolArray:
    """What was marked in steps in which some ranks marked modules or actions and others did not, as a rank that finds
    this too dear marks fewer: there ranks cannot be compared ``[spans]``."""
    inside = np.flatnonzero(on_device & (spans.texts("kind") >= 0))
    if not len(inside):
        return np.zeros(len(on_device), np.bool_)
    step, rank = spans.table.step.astype(np.int64), spans.rank
    pairs = np.unique(np.stack((step[inside], rank[inside])), axis=1)
    steps, ranks = np.unique(pairs[0], return_counts=True)
    common = steps[ranks == len(np.unique(rank[inside]))]
    if not len(common):
        return np.zeros(len(on_device), np.bool_)
    return np.asarray(on_device & marked_spans(spans) & ~np.isin(step, common))


def _of_layers(spans: Spans) -> BoolArray:
    """Parts of a pipeline's actions, which are marked for some microbatches and not for others ``[spans]``."""
    return np.asarray((spans.texts("kind") >= 0) & (spans.texts("action") >= 0))


def _vertices(spans: Spans, rows: IntArray) -> IntArray:
    """Vertices of some spans; of a module on a device that where its forward is called, also of its backward, which
    a thread of its own launches ``[rows]``."""
    vertex = spans.vertex[rows].astype(np.int64)
    kind, direction = spans.texts("class")[rows], spans.texts("direction")[rows]
    module = np.flatnonzero((kind >= 0) & spans.device_lanes()[spans.table.lane[rows]])
    if not len(module):
        return vertex
    name = spans.table.name[rows].astype(np.int64)
    _, which = np.unique(np.stack((spans.texts("root")[rows], name, kind))[:, module], axis=1, return_inverse=True)
    which = which.reshape(-1)
    forward = direction[module] == spans.number("forward")
    called = np.full(which.max() + 1, -1, np.int64)
    called[which[forward][::-1]] = vertex[module[forward]][::-1]
    vertex[module] = np.where(called[which] >= 0, called[which], vertex[module])
    return vertex


def _text(psg: PSG, vertex: int) -> str:
    """What a thread does at a vertex, in a word."""
    place = psg[vertex].place
    return place.name or psg.function_of(vertex)


def marked_spans(spans: Spans) -> BoolArray:
    """Which spans of devices are what a job marked itself, rather than single kernels ``[spans]``."""
    marked = (spans.texts("kind") >= 0) | (spans.integers("behind_ns") >= 0)
    begins = (spans.texts("collective") >= 0) & (spans.table.end_ns == spans.table.start_ns)  # where C++ waits
    return marked | (begins & marked.any())


def short(name: str) -> str:
    """The name of a kernel without its result, parameters and arguments of templates."""
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", bare, maxsplit=1)[0] if "::" in bare or bare != name else name
