"""Where the time goes: the vertices of a run by their own time, one row per place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.ppg import PPG


@dataclass(frozen=True, slots=True)
class HotPlace:
    """One place (a line, a loop, a call) with the time of all the vertices that stand for it.

    Seconds are means over ranks; ``least_s`` and ``most_s`` are those of single ranks.
    """

    file: str
    line: int
    end_line: int
    """The last line of a stretch of straight-line code; else the same."""
    name: str
    """What stands there: the enclosing function, or for communication the operation."""
    time_s: float
    work_s: float
    stall_s: float
    """Outside communication and not on a CPU; waiting for a core included."""
    wait_s: float
    transfer_s: float
    least_s: float
    most_s: float


def hot_places(
    metrics: Mapping[str, FloatArray], ppg: PPG, without: Mapping[str, FloatArray] | None = None
) -> list[HotPlace]:
    """All places that took any time, longest first: what ``metrics``, each ``[vertices, ranks]``, say, less what they
    are ``without``. O(vertices x ranks)."""
    time_s = metrics["time_s"]
    parts = ("stall_s", "core_wait_s", "wait_s", "comm_s")

    def of_ranks(name: str, indices: list[int]) -> FloatArray:
        """Seconds at a place on every rank ``[ranks]``."""
        seconds = metrics[name][indices].sum(axis=0)
        return np.maximum(seconds - without[name][indices].sum(axis=0), 0.0) if without is not None else seconds

    rows: dict[tuple[str, int, int, str], list[int]] = {}
    for index in np.flatnonzero(time_s.sum(axis=1) > 0):
        rows.setdefault(place_of(ppg, int(index)), []).append(int(index))
    places = []
    for (file, line, end_line, name), indices in rows.items():
        per_rank = of_ranks("time_s", indices)
        stall_s, core_wait_s, wait_s, comm_s = (float(of_ranks(name, indices).mean()) for name in parts)
        time = float(per_rank.mean())
        places.append(
            HotPlace(
                file,
                line,
                end_line,
                name,
                time_s=time,
                work_s=max(0.0, time - comm_s - stall_s - core_wait_s),
                stall_s=stall_s + core_wait_s,
                wait_s=wait_s,
                transfer_s=max(0.0, comm_s - wait_s),
                least_s=float(per_rank.min()),
                most_s=float(per_rank.max()),
            )
        )
    return sorted(places, key=lambda place: (-place.time_s, place.file, place.line))


def seconds_by_place(time_s: FloatArray, ppg: PPG) -> list[tuple[str, int, str, float]]:
    """File, line, name and seconds, mean over ranks, of all places that took any, longest first; ``time_s`` is
    ``[vertices, ranks]``."""
    seconds: dict[tuple[str, int, int, str], float] = defaultdict(float)
    of_vertex = time_s.sum(axis=1) / max(time_s.shape[1], 1)
    for index in np.flatnonzero(of_vertex > 0.0).tolist():
        seconds[place_of(ppg, index)] += float(of_vertex[index])
    places = [(file, line, name, amount) for (file, line, _, name), amount in seconds.items()]
    return sorted(places, key=lambda place: (-place[3], place[0], place[1]))


def seconds_of_ranks(places: Sequence[HotPlace], ppg: PPG) -> FloatArray:
    """Seconds of every rank at some places, over the whole run ``[places, ranks]``."""
    time_s = ppg.metrics["time_s"]
    row_of = {(place.file, place.line, place.end_line, place.name): row for row, place in enumerate(places)}
    seconds = np.zeros((len(places), time_s.shape[1]))
    for index in np.flatnonzero(time_s.sum(axis=1) > 0).tolist():
        row = row_of.get(place_of(ppg, index))
        if row is not None:
            seconds[row] += time_s[index]
    return seconds


def place_of(ppg: PPG, index: int) -> tuple[str, int, int, str]:
    """File, lines and name. A loop and what it holds on the same line are one place to a reader."""
    vertex = ppg.psg.vertices[index]
    if index == 0:  # in what starts a process, or code that is not known
        return "", 0, 0, "outside the program"
    kind = str(vertex.kind.value)
    name = vertex.place.name if kind in ("comm", "call", "op", "region") else ppg.psg.function_of(index)
    place = vertex.place
    end_line = place.end_line if kind == "comp" else place.line
    return place.file, place.line, max(place.line, end_line), name or place.name
