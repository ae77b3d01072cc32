"""The calls and locations of a run, put together from the portions in which its records are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import to_seconds, widened
from scalana.graphs.arrays.shards import each
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.attribution.callpaths import Placer
from scalana.graphs.attribution.places import Places
from scalana.graphs.attribution.placing import call_vertices
from scalana.graphs.calls.located import Located
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.timeline import CODE, ROW, Calls, Locations


def locations_of(located: list[Located], data: Gathered) -> Locations:
    """The locations of all portions; numbers those of ``data.threads`` too."""
    number = 0
    for part in located:
        of = part.threads.location
        data.threads.location[part.shard.threads] = np.where(of >= 0, of + number, -1)
        number += len(part.rank)

    def column(name: str, kind: type[np.generic]) -> Any:
        return np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in located)], dtype=kind)

    return Locations(
        column("rank", np.int64),
        column("is_main", np.bool_),
        to_seconds(column("start_ns", np.int64)),
        to_seconds(column("end_ns", np.int64)),
    )


def vertices_of(located: list[Located], places: Places, placer: Placer) -> list[IntArray]:
    """The communication vertex of each kind of call, for every portion."""
    nothing = np.zeros(0, np.int64)
    path = np.concatenate([nothing, *(part.path for part in located)])
    operation = np.concatenate([nothing, *(part.operation for part in located)])
    vertex = call_vertices(placer, places, path, operation)
    return np.split(vertex, np.cumsum([len(part.path) for part in located])[:-1]) if located else []


def begins_of(located: list[Located]) -> IntArray:
    """Row of the first call of every portion among those of the run, and how many there are ``[portions + 1]``."""
    return np.concatenate(([0], np.cumsum([len(part) for part in located]))).astype(np.int64)


def calls_of(located: list[Located], vertex: list[IntArray], instance_of_event: npt.NDArray[Any]) -> Calls:
    """The calls of all portions, one portion after the other."""
    begins = begins_of(located)
    count = int(begins[-1])

    def column(kind: npt.DTypeLike) -> Any:
        return np.empty(count, kind)

    whole = Calls(
        location=column(ROW),
        vertex=column(ROW),
        operation=column(CODE),
        enter_s=column(np.float64),
        exit_s=column(np.float64),
        cpu_s=column(np.float64),
        nbytes=column(np.result_type(ROW, *(part.spans.nbytes for part in located))),
        posts=column(ROW),
        first=np.zeros(1, np.int64),
        wait_first=np.zeros(count + 1, ROW),
        waits=np.zeros(0, ROW),
    )
    first_location = np.concatenate(([0], np.cumsum([len(part.rank) for part in located]))).tolist()

    def fill(number: int) -> IntArray:
        """Put the calls of a portion into the table; returns what they wait for."""
        part, at = located[number], slice(int(begins[number]), int(begins[number + 1]))
        spans = widened(part.spans)
        waits = instance_of_event[spans.waits]
        # A wait for what meets nobody (its post was not recorded, its sender is unknown) waits for no instance.
        kept = np.concatenate(([0], np.cumsum(waits >= 0)))
        known = (spans.cpu_enter_ns >= 0) & (spans.cpu_exit_ns >= 0)
        inside = np.where(known, np.maximum(spans.cpu_exit_ns - spans.cpu_enter_ns, 0), 0)
        whole.location[at] = part.location.astype(np.int64) + first_location[number]
        whole.vertex[at] = vertex[number][part.kind]
        whole.operation[at] = spans.operation
        whole.enter_s[at] = to_seconds(spans.enter_ns)
        whole.exit_s[at] = to_seconds(spans.exit_ns)
        whole.cpu_s[at] = to_seconds(np.minimum(inside, spans.exit_ns - spans.enter_ns))
        whole.nbytes[at] = spans.nbytes
        whole.posts[at] = np.where(spans.post >= 0, instance_of_event[spans.post], -1)
        whole.wait_first[at.start + 1 : at.stop + 1] = np.diff(kept[spans.wait_first])
        part.let_go_of_calls()
        return waits[waits >= 0]

    whole.waits = np.concatenate([whole.waits, *each(fill, range(len(located)))])
    np.cumsum(whole.wait_first, out=whole.wait_first)
    firsts = [part.first[:-1] + begin for part, begin in zip(located, begins.tolist(), strict=False)]
    whole.first = np.concatenate([*firsts, [count]]).astype(np.int64)
    return whole
