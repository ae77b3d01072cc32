"""What ``hatchet.GraphFrame.from_json`` reads (llnl-hatchet): the program's structure, with a row a vertex and rank.

Only vertices at which some rank spent time, or made a call, are written, and those above them; of these there is a row
for every rank, as Hatchet expects it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.ppg import PPG
from scalana.report import names
from scalana.report.values import plain

METRICS = {
    "time": "time_s",
    "cpu": "cpu_s",
    "stalled": "stall_s",
    "communication": "comm_s",
    "waiting": "wait_s",
    "calls": "calls",
}
"""Exclusive columns, and the metric of the graph that each is; the seconds of ``time`` are also there inclusive."""
INCLUSIVE = "time (inc)"


def pieces(analysis: Analysis) -> Iterator[str]:
    """The file: a column a line."""
    ppg = analysis.ppg
    shown = _shown(ppg)
    ranks = ppg.timeline.ranks
    node = np.repeat(shown, ranks)
    columns = {name: ppg.metrics[metric][shown].ravel() for name, metric in METRICS.items()}
    columns[INCLUSIVE] = ppg.inclusive("time_s")[shown].ravel()
    frames = {int(vertex): _frame(ppg, int(vertex)) for vertex in shown}
    yield '{"graph":[' + _json(_graph(ppg, frames)) + '],\n"dataframe":{'
    yield '"node":' + _json(node.tolist()) + ",\n"
    yield '"rank":' + _json(np.tile(np.arange(ranks), len(shown)).tolist()) + ",\n"
    for key in ("name", "type", "file", "line"):
        yield f'"{key}":' + _json([frames[vertex][key] for vertex in node.tolist()]) + ",\n"
    for number, (name, values) in enumerate(columns.items(), 1):
        yield f'"{name}":' + _json(plain(values)) + (",\n" if number < len(columns) else "\n")
    yield '},\n"dataframe_indices":["node","rank"],\n'
    yield f'"exclusive_metrics":{_json(list(METRICS))},\n"inclusive_metrics":{_json([INCLUSIVE])}}}\n'


def _shown(ppg: PPG) -> IntArray:
    """Vertices with anything of their own, and all above them; the root always ``[some vertices]``."""
    shown = np.asarray(((ppg.metrics["time_s"] > 0.0) | (ppg.metrics["calls"] > 0.0)).any(axis=1))
    shown[0] = True
    # A vertex' parent has a smaller number.
    for vertex in reversed(ppg.psg.vertices):
        if vertex.parent >= 0 and shown[vertex.index]:
            shown[vertex.parent] = True
    return np.flatnonzero(shown)


def _frame(ppg: PPG, vertex: int) -> dict[str, Any]:
    found = ppg.psg.vertices[vertex]
    place, kind = found.place, str(found.kind.value)
    name = place.name or f"{kind} in line {place.line}"
    return {"name": name, "type": kind, "file": names.relative(place.file, ppg.run.cwd), "line": int(place.line)}


def _graph(ppg: PPG, frames: dict[int, dict[str, Any]]) -> dict[str, Any]:
    graph: dict[str, Any] = {str(vertex): {"data": frame, "children": []} for vertex, frame in frames.items()}
    for vertex in frames:
        parent = ppg.psg.vertices[vertex].parent
        if parent >= 0:
            graph[str(parent)]["children"].append(vertex)
    return graph


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
