"""Where the time goes: the vertices of a run by their own time, one row per place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
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


def hot_places(ppg: PPG) -> list[HotPlace]:
    """All places that took any time, longest first. O(vertices x ranks)."""
    time_s = ppg.metrics["time_s"]
    parts = [ppg.metrics[name] for name in ("stall_s", "core_wait_s", "wait_s", "comm_s")]
    rows: dict[tuple[str, int, int, str], list[int]] = {}
    for index in np.flatnonzero(time_s.sum(axis=1) > 0):
        rows.setdefault(_place(ppg, int(index)), []).append(int(index))
    places = []
    for (file, line, end_line, name), indices in rows.items():
        per_rank = time_s[indices].sum(axis=0)
        stall_s, core_wait_s, wait_s, comm_s = (float(part[indices].sum(axis=0).mean()) for part in parts)
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


def _place(ppg: PPG, index: int) -> tuple[str, int, int, str]:
    """File, lines and name. A loop and what it holds on the same line are one place to a reader."""
    vertex = ppg.psg.vertices[index]
    kind = str(vertex.kind.value)
    name = vertex.place.name if kind in ("comm", "call", "op", "region") else ppg.psg.function_of(index)
    place = vertex.place
    end_line = place.end_line if kind == "comp" else place.line
    return place.file, place.line, max(place.line, end_line), name or place.name
