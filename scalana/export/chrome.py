"""Chrome's trace events, which Perfetto opens: a process a rank, its calls, its work between them, waits, and spans.

Waits lie on a lane of their own, with an arrow to the call that was waited for. Times are microseconds from the first
record on, exact to the nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.ranking import ranked
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import own_first
from scalana.report import names
from scalana.report.findings.claims import claim
from scalana.runtime.operations import BY_CODE
from scalana.runtime.record.format import SPAN_TYPES
from scalana.version import __version__

Event = dict[str, Any]

_MOST_PLACES = 4
"""Of a stretch of work that are listed."""
_ONE_RANK = 4096
"""Lanes that a rank may have; thread ids of the file are unique over all ranks, as some viewers want it."""


def pieces(analysis: Analysis) -> Iterator[str]:
    """The file: an event a line."""
    run = analysis.ppg.run
    told = [
        f"{names.place(names.relative(finding.file, run.cwd), finding.line)} {finding.function}: "
        + claim(finding, run.ranks, run.names)
        for finding in ranked(analysis.findings)
    ]
    about = {"tool": f"scalana {__version__}", "command": " ".join(map(str, run.command)), "findings": told}
    yield '{"displayTimeUnit":"ms","otherData":' + _json(about) + ',"traceEvents":[\n'
    first = True
    for event in _events(analysis):
        yield ("" if first else ",\n") + _json(event)
        first = False
    yield "\n]}\n"


def _events(analysis: Analysis) -> Iterator[Event]:
    run = analysis.ppg.run
    guilty = {rank for finding in analysis.findings for rank in finding.ranks}
    for rank in range(run.ranks):
        yield _meta("process_name", rank, 0, name=run.names.one(rank))
        yield _meta("process_sort_index", rank, 0, sort_index=rank)
        if rank in guilty:
            yield _meta("process_labels", rank, 0, labels="a finding names it")
    trace = _Trace(analysis)
    for location in range(len(analysis.ppg.timeline.locations)):
        yield from trace.threads(location)
        yield from trace.work(location)
        yield from trace.calls(location)
    yield from _spans(analysis, trace)


class _Trace:
    """Events of calls, waits and work, from the columns of a timeline."""

    def __init__(self, analysis: Analysis) -> None:
        self.ppg, self.timeline, self.waits = analysis.ppg, analysis.ppg.timeline, analysis.waits
        timeline = self.timeline
        self.origin = float(timeline.locations.start_s.min(initial=np.inf)) if len(timeline.locations) else 0.0
        self.enter, self.leave = self.ns(timeline.calls.enter_s), self.ns(timeline.calls.exit_s)
        self.wait = np.rint(self.waits.wait_s * 1e9).astype(np.int64)
        self.rows = own_first(timeline)
        self._places: dict[tuple[int, int], str] = {}
        rank = timeline.locations.rank.astype(np.int64)
        number = np.arange(len(rank)) - np.searchsorted(rank, rank)
        self.rank, self.lane = rank, rank * _ONE_RANK + 2 * number
        """Rank, and thread id in the file ``[locations]``; the waits of a location have the next one."""

    def ns(self, seconds: FloatArray) -> IntArray:
        """Nanoseconds since the first record."""
        return np.rint((seconds - self.origin) * 1e9).astype(np.int64)

    def place(self, vertex: int, line: int = 0) -> str:
        """File and line of a vertex, or of a line in it."""
        if (vertex, line) not in self._places:
            place = self.ppg.psg.vertices[vertex].place
            where = names.relative(place.file, self.ppg.run.cwd)
            self._places[vertex, line] = names.place(where, line or place.line)
        return self._places[vertex, line]

    def threads(self, location: int) -> Iterator[Event]:
        """Names of the lanes of a location."""
        rank, lane = int(self.rank[location]), int(self.lane[location])
        number = (lane - rank * _ONE_RANK) // 2
        name = "main thread" if self.timeline.locations.is_main[location] else f"thread {number}"
        for offset, text in enumerate((name, f"{name}: waiting")):
            yield _meta("thread_name", rank, lane + offset, name=text)
            yield _meta("thread_sort_index", rank, lane + offset, sort_index=2 * number + offset)

    def calls(self, location: int) -> Iterator[Event]:
        """The calls of a location, its waits, and arrows to whom it waits for."""
        calls, rank, lane = self.timeline.calls, int(self.rank[location]), int(self.lane[location])
        for call in range(int(calls.first[location]), int(calls.first[location + 1])):
            operation = BY_CODE[int(calls.operation[call])].name
            begin, end, wait = int(self.enter[call]), int(self.leave[call]), int(self.wait[call])
            where = self.place(int(calls.vertex[call]))
            told = {"place": where, "bytes": int(calls.nbytes[call]), "wait_s": wait / 1e9}
            yield _slice(operation, "call", rank, lane, begin, end, told)
            if wait <= 0:
                continue
            culprit = int(self.waits.culprit[call])
            at = int(calls.location[culprit])
            who = self.ppg.run.names.one(int(self.rank[at]))
            yield _slice(f"waits for {who}", "wait", rank, lane + 1, begin, min(begin + wait, end), {"place": where})
            arrow = {"cat": "wait", "name": "waits for", "id": call}
            yield arrow | {"ph": "s", "pid": rank, "tid": lane + 1, "ts": begin / 1e3}
            arrived = max(int(self.enter[culprit]), begin)
            yield arrow | {
                "ph": "f",
                "bp": "e",
                "pid": int(self.rank[at]),
                "tid": int(self.lane[at]),
                "ts": arrived / 1e3,
            }

    def work(self, location: int) -> Iterator[Event]:
        """What a location did between its calls: a slice a stretch, named by the place with most of it."""
        calls, rank, lane = self.timeline.calls, int(self.rank[location]), int(self.lane[location])
        first, end = int(calls.first[location]), int(calls.first[location + 1])
        begins = np.append(self.ns(self.timeline.locations.start_s[location : location + 1]), self.leave[first:end])
        ends = np.append(self.enter[first:end], self.ns(self.timeline.locations.end_s[location : location + 1]))
        bursts = [*range(first, end), len(calls) + location]
        for begin, until, burst in zip(begins.tolist(), ends.tolist(), bursts, strict=True):
            rows = slice(int(self.rows[burst]), int(self.rows[burst + 1]))
            if until > begin and rows.stop > rows.start:
                yield self._stretch(rows, rank, lane, begin, until)

    def _stretch(self, rows: slice, rank: int, lane: int, begin: int, end: int) -> Event:
        own, activities = self.timeline.own, self.timeline.activities
        seconds = own.seconds[rows]
        order = np.argsort(-seconds, kind="stable")[:_MOST_PLACES].tolist()
        places: dict[str, float] = {}
        for row in order:
            activity = int(own.activity[rows][row])
            where = self.place(int(activities.vertex[activity]), int(activities.line[activity]))
            places[where] = round(places.get(where, 0.0) + float(seconds[row]), 9)
        vertex = int(activities.vertex[int(own.activity[rows][order[0]])])
        name = self.ppg.psg.function_of(vertex) or next(iter(places))
        told = {
            "seconds": round(float(seconds.sum()), 9),
            "cpu_s": round(float(own.cpu_s[rows].sum()), 9),
            "places": places,
        }
        return _slice(name, "work", rank, lane, begin, end, told)


def _spans(analysis: Analysis, trace: _Trace) -> Iterator[Event]:
    """Everything with a begin, an end and a name, on the lanes that it was recorded on."""
    spans = analysis.ppg.spans
    if not len(spans):
        return
    begin, end = trace.ns(spans.start_s()), trace.ns(spans.end_s())
    lanes = spans.table.lane
    order = np.lexsort((-end, begin, lanes))
    edges = np.flatnonzero(np.diff(lanes[order], prepend=-1, append=-1))
    used: dict[int, int] = {}
    for rows in (order[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)):
        lane = int(lanes[rows[0]])
        rank = int(spans.lanes.rank[lane])
        layer = layers(begin[rows].tolist(), end[rows].tolist())
        base = used.get(rank, _ONE_RANK // 2)
        used[rank] = base + max(layer) + 1
        name = spans.names[int(spans.lanes.name[lane])] if int(spans.lanes.name[lane]) >= 0 else ""
        for number in range(max(layer) + 1):
            text = (name or "spans") + (f" ({number + 1})" if number else "")
            yield _meta("thread_name", rank, rank * _ONE_RANK + base + number, name=text)
            yield _meta("thread_sort_index", rank, rank * _ONE_RANK + base + number, sort_index=base + number)
        for span, at in zip(rows.tolist(), layer, strict=True):
            table = spans.table
            kind, tid = SPAN_TYPES[int(table.type[span])], rank * _ONE_RANK + base + at
            text = spans.names[int(table.name[span])]
            yield _slice(text, kind, rank, tid, int(begin[span]), int(end[span]), spans.attributes(span))


def _slice(name: str, kind: str, rank: int, tid: int, begin: int, end: int, args: dict[str, Any]) -> Event:
    dur = (end - begin) / 1e3
    return {"ph": "X", "name": name, "cat": kind, "pid": rank, "tid": tid, "ts": begin / 1e3, "dur": dur, "args": args}


def _meta(what: str, rank: int, tid: int, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": rank, "tid": tid, "args": args}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def layers(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """For each slice the first layer in which it lies beside the others, inside one of them, or around it.

    Slices have to be in the order of their beginnings, of those that begin together the longest first.

    >>> layers([0, 1, 3, 5], [4, 2, 6, 6])
    [0, 0, 1, 1]
    """
    open_ends: list[list[int]] = []
    chosen = []
    for first, last in zip(begin, end, strict=True):
        for layer, ends in enumerate(open_ends):
            while ends and ends[-1] <= first:
                ends.pop()
            if not ends or last <= ends[-1]:
                ends.append(last)
                chosen.append(layer)
                break
        else:
            chosen.append(len(open_ends))
            open_ends.append([last])
    return chosen
