"""speedscope's own format: a profile of each rank, and one of who is to blame for waiting.

The seconds of a rank's profile are those that were recorded of its main thread; those of the profile of blame add up to
the waiting in the calls that were written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.targets import TargetKind
from scalana.graphs.ppg import PPG
from scalana.report import names
from scalana.report.values import plain
from scalana.version import __version__

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
BLAMED = "waiting of other ranks, by causing rank"
_INSIDE = {TargetKind.TRANSFER: "(transfer)", TargetKind.UNRESOLVED: "(late, cause not resolved)"}
_BEFORE = "(late before the recording begins)"


class Frames:
    """The frames of all profiles, each once, and the stacks of vertices."""

    def __init__(self, ppg: PPG) -> None:
        self._vertices, self._cwd = ppg.psg.vertices, ppg.run.cwd
        self._number: dict[tuple[str, str, int], int] = {}
        self._stacks: dict[int, list[int]] = {}

    def number(self, name: str, file: str = "", line: int = 0) -> int:
        """Of a frame."""
        return self._number.setdefault((name, names.relative(file, self._cwd), line), len(self._number))

    def stack(self, vertex: int) -> list[int]:
        """Frames from the top of the program down to a vertex."""
        if vertex not in self._stacks:
            found = self._vertices[vertex]
            above = self.stack(found.parent) if found.parent >= 0 else []
            place = found.place
            name = place.name or f"{found.kind.value} in line {place.line}"
            # The root of the structure is the program, which is no frame.
            own = [self.number(name, place.file, place.line)] if found.parent >= 0 else []
            self._stacks[vertex] = above + own
        return self._stacks[vertex]

    def table(self) -> list[dict[str, Any]]:
        """As the format has them."""
        return [
            {"name": name, **({"file": file} if file else {}), **({"line": line} if line > 0 else {})}
            for name, file, line in self._number
        ]


def pieces(analysis: Analysis) -> Iterator[str]:
    """The file: a profile a line."""
    frames = Frames(analysis.ppg)
    profiles = [
        *_blamed(analysis, frames),
        *(_rank(analysis.ppg, rank, frames) for rank in range(analysis.ppg.run.ranks)),
    ]
    head = {
        "$schema": _SCHEMA,
        "exporter": f"scalana@{__version__}",
        "name": " ".join(map(str, analysis.ppg.run.command)),
        "activeProfileIndex": 0,
        "shared": {"frames": frames.table()},
    }
    yield _json(head)[:-1] + ',"profiles":[\n'
    for number, profile in enumerate(profiles):
        yield _json(profile) + (",\n" if number < len(profiles) - 1 else "\n")
    yield "]}\n"


def _rank(ppg: PPG, rank: int, frames: Frames) -> dict[str, Any]:
    seconds = ppg.metrics["time_s"][:, rank]
    vertices = np.flatnonzero(seconds > 0.0).tolist()
    return _profile(ppg.run.names.one(rank), [frames.stack(one) for one in vertices], seconds[vertices].tolist())


def _blamed(analysis: Analysis, frames: Frames) -> Iterator[dict[str, Any]]:
    """Whose doing makes others wait: the rank is the outermost frame."""
    table, timeline, run = analysis.blame, analysis.ppg.timeline, analysis.ppg.run
    if not len(table.seconds):
        return
    stacks = []
    for location, target in zip(table.location.tolist(), table.target.tolist(), strict=True):
        kind, row = table.numbering.describe(target)
        stack = [frames.number(run.names.one(int(timeline.locations.rank[location])))]
        if kind == TargetKind.OWN:
            stack += frames.stack(int(timeline.activities.vertex[row]))
        elif kind in _INSIDE:
            stack += [*frames.stack(row), frames.number(_INSIDE[kind])]
        else:
            stack.append(frames.number(_BEFORE))
        stacks.append(stack)
    yield _profile(BLAMED, stacks, table.seconds.tolist())


def _profile(name: str, stacks: list[list[int]], weights: list[float]) -> dict[str, Any]:
    weights = plain(weights)
    return {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": plain(float(sum(weights))),
        "samples": stacks,
        "weights": weights,
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
