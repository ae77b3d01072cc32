"""Traces of several ranks -> a run folder, by the writer that all importers share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.importers import host_calls
from scalana.importers.call_lines import CallLines
from scalana.importers.collectives import Call, clock_offsets, number_calls
from scalana.importers.frames import (
    OPERATORS,
    OUTSIDE,
    EventPaths,
    Frame,
    PathTable,
    called_name,
    frame_of,
    stack_frames,
    step_number,
)
from scalana.importers.nesting import innermost
from scalana.importers.rank_calls import Host, calls_of, host_of
from scalana.importers.trace import Kind, RankTrace
from scalana.runtime.operations import BY_CODE
from scalana.runtime.record import layout
from scalana.runtime.record.format import HOST_ACTIVITY, LANE_OTHER, LANE_STREAM, LANE_THREAD, SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from scalana.runtime.record.writer import RecordWriter

_TICKS = 50_000
_SHORTEST_TICK_NS, _LONGEST_TICK_NS = 10_000, 5_000_000
_WRAPPERS = 4
"""Functions of a library that may lie between a call and what it is a call of."""
_START_NS = 1_000_000_000
"""Where the earliest event lies on the axis of the records."""
_LAUNCHES = ("Launch", "launch")
_ANNOTATIONS = (("Optimizer.", "optimizer"), ("enumerate(DataLoader)", "data"))
"""Types of spans of annotations by how their names begin; others are regions."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of time that the records share."""

    zero_ns: int
    """Of the traces' own clock, what is ``_START_NS`` in the records."""
    tick_ns: int


@dataclass(frozen=True, slots=True)
class _Job:
    """What the records of all ranks share."""

    axis: Axis
    source: str
    """Folder of the program's source."""
    world: tuple[int, ...]
    """All ranks."""


def write(traces: Sequence[RankTrace], folder: str, source: str, command: Sequence[str], notes: Sequence[str]) -> None:
    """Write the run folder of some traces, each of another rank.

    Args:
        traces: with their ranks known.
        folder: to be made.
        source: folder of the program's source.
        command: what the run says it was.
        notes: what to say of the traces.

    Raises:
        FileExistsError: the folder holds something already.
        OSError: it cannot be written.
    """
    hosts = [host_of(trace) for trace in traces]
    for trace, host in zip(traces, hosts, strict=True):
        host.start_ns += trace.base_ns
        host.end_ns += trace.base_ns
    calls = [calls_of(trace, host) for trace, host in zip(traces, hosts, strict=True)]
    told = [*notes, *number_calls([trace.rank for trace in traces], calls)]
    offsets = clock_offsets(calls, [trace.host for trace in traces])
    for host, own, offset in zip(hosts, calls, offsets.tolist(), strict=True):
        host.start_ns += offset
        host.end_ns += offset
        for call in own:
            call.start_ns, call.end_ns = call.start_ns + offset, call.end_ns + offset
    if offsets.any():
        moved = [str(trace.rank) for trace, by in zip(traces, offsets.tolist(), strict=True) if by]
        told.append(f"the clock of rank{'s' * (len(moved) > 1)} {', '.join(moved)} was aligned by ends of collectives")
    first = min(int(host.start_ns.min()) for host in hosts)
    last = max(int(host.end_ns.max()) for host in hosts)
    longest = max(int(host.end_ns.max() - host.start_ns.min()) for host in hosts)
    tick = int(np.clip(longest // _TICKS, _SHORTEST_TICK_NS, _LONGEST_TICK_NS))
    axis = Axis(first, tick)
    size = max([trace.world_size for trace in traces] + [trace.rank + 1 for trace in traces])
    job = _Job(axis, source, tuple(range(size)))
    run = RunWriter(folder, {"command": list(command), "cwd": source, "seconds": (last - first) * 1e-9})
    for trace, host, own in zip(traces, hosts, calls, strict=True):
        _RankWriter(run, trace, host, own, job).write()
    if told:
        with open(layout.note_file(folder, "import", 0), "w", encoding="utf-8") as file:
            file.writelines(f"{note}\n" for note in told)


class _RankWriter:
    """Writes the record of one rank."""

    def __init__(self, run: RunWriter, trace: RankTrace, host: Host, calls: list[Call], job: _Job) -> None:
        self.trace, self.host, self.calls = trace, host, calls
        self.axis, self.source, self.world = job.axis, job.source, job.world
        self.begin_ns, self.end_ns = self.moment(int(host.start_ns.min())), self.moment(int(host.end_ns.max()))
        self.writer: RecordWriter = run.process(
            trace.host or "imported",
            rank=trace.rank,
            boot_id="imported",
            world_size=len(job.world),
            start_ns=self.begin_ns,
            unix_ns=int(host.start_ns.min()),
            cwd=job.source,
            rate_hz=1e9 / job.axis.tick_ns,
        )
        self.paths = EventPaths(PathTable(self.writer), self.frames, host.around, self.call_line)
        self.lines = CallLines()
        self.inner = host.first_inside()
        self.thread: dict[int, int] = {}
        self.group: dict[tuple[str, tuple[int, ...]], int] = {}
        self._frames: dict[tuple[int, int], list[Frame]] = {}
        self._inputs: dict[int, int] = {}

    def moment(self, time_ns: int) -> int:
        """A time on the axis of the records."""
        return time_ns - self.axis.zero_ns + _START_NS

    def frames(self, row: int) -> tuple[bool, list[Frame]]:
        """What an event adds to a call path, and whether that is all of it."""
        trace, kind, name = self.trace, int(self.host.kind[row]), int(self.host.name[row])
        stack = trace.arguments.get(row, {}).get("Call stack") if kind == Kind.OPERATOR else None
        known = self._frames.get((kind, name))
        if known is None:
            text = trace.names[name]
            adds = kind > Kind.RUNTIME or (kind == Kind.RUNTIME and not any(word in text for word in _LAUNCHES))
            frame = frame_of(kind, text, trace.has_python, self.source) if adds else None
            known = self._frames[kind, name] = [frame] if frame else []
        if stack:
            return True, [*stack_frames(str(stack), self.source), *known]
        return False, known

    def call_line(self, caller: Frame, row: int) -> int:
        """The line in which a function calls what an event is; 0 where it is not known."""
        if caller.file.startswith("<") or not os.path.isabs(caller.file):
            return 0
        called, names = [], self.trace.names
        for _ in range(_WRAPPERS):  # a library may wrap what is called
            if row < 0:
                break
            name = names[self.host.name[row]]
            called.append(called_name(name))
            if name.startswith("nn.Module: ") or not any(f.file.startswith("<") for f in self.frames(row)[1]):
                break
            row = int(self.inner[row])
        first = 0 if caller.name == "<module>" else caller.first_line
        return self.lines.line(caller.file, first, called)

    def write(self) -> None:
        """Write it all."""
        with self.writer as writer:
            for note in self._own_notes():
                writer.note(note)
            tracks = sorted(self.host.order, key=lambda track: (track != self.host.main, track))
            for number, track in enumerate(tracks or [-1]):
                self.thread[track] = number
                name = f"thread {self.trace.tracks[track].thread}" if track >= 0 else "no thread"
                if number == 0:
                    writer.thread(0, 0, name)
                else:
                    writer.thread(number, number, name, 0)
            writer.time(self.begin_ns)
            steps = self._steps()
            event_of = self._calls()
            self._annotations(steps)
            self._device(steps, event_of)
            for track in tracks:
                self._activity(track)
            writer.end(self.end_ns)

    def path_of_call(self, row: int) -> int:
        """The call path of an event of the host; that of -1 is empty."""
        return self.paths.of(row)

    def _own_notes(self) -> list[str]:
        trace, notes = self.trace, []
        file = os.path.basename(trace.file)
        if trace.damage:
            notes.append(f"{file}: {trace.damage}; its complete part is used")
        if trace.odd:
            notes.append(f"{file}: {trace.odd} invalid events are left out")
        if trace.other_categories:
            listed = ", ".join(f"{count} of {name}" for name, count in sorted(trace.other_categories.items())[:4])
            notes.append(f"events of unknown kinds are left out: {listed}")
        return notes

    def _steps(self) -> tuple[IntArray, IntArray]:
        """Write the steps; returns their beginnings in the trace's time, sorted, and their numbers."""
        host, numbers = self.host, [step_number(name) for name in self.trace.names]
        is_step = np.array([number is not None for number in numbers], np.bool_)
        rows = np.flatnonzero((host.kind == Kind.ANNOTATION) & is_step[host.name])
        rows = rows[np.argsort(host.start_ns[rows])]
        known = np.array([number or 0 for number in numbers], np.int64)[host.name[rows]]
        for row, number in zip(rows.tolist(), known.tolist(), strict=True):
            duration = int(host.end_ns[row] - host.start_ns[row])
            self.writer.span(
                SPAN_TYPE["step"],
                "step",
                self.moment(int(host.start_ns[row])),
                duration,
                lane=self._thread_lane(int(host.track[row])),
                step=number,
                attributes={"source": "trainer"},
            )
        return host.start_ns[rows], known

    def _thread_lane(self, track: int) -> int:
        return self.writer.lane(LANE_THREAD, thread=self.thread.get(track, 0))

    def _calls(self) -> dict[int, int]:
        """Write the communication calls; returns the event that each event of a device is a side of."""
        event_of: dict[int, int] = {}
        waits = host_calls.Waits(self.host, self.calls)
        for number, call in enumerate(self.calls):
            members = call.ranks or self.world
            if self.trace.rank not in members or call.operation == 0:
                continue
            group = self.group.get((call.group, call.ranks))
            if group is None:
                group = self.group[call.group, call.ranks] = len(self.group) + 1
                self.writer.group(group, call.group, members.index(self.trace.rank), members)
            event = 2 * (number + 1)
            written = host_calls.write_call(self.writer, self, waits, call, event, group)
            if written:
                event_of[call.device] = event
        return event_of

    def _annotations(self, steps: tuple[IntArray, IntArray]) -> None:
        """Write the program's annotations as spans, those of communication and of steps left out."""
        host, names = self.host, self.trace.names
        rows = np.flatnonzero(host.kind == Kind.ANNOTATION)
        for row in rows.tolist():
            name = names[host.name[row]]
            if step_number(name) is not None or ":" in name[:5] or int(host.track[row]) not in self.thread:
                continue
            kind = next((kind for begin, kind in _ANNOTATIONS if name.startswith(begin)), "region")
            self.writer.span(
                SPAN_TYPE[kind],
                name,
                self.moment(int(host.start_ns[row])),
                int(host.end_ns[row] - host.start_ns[row]),
                lane=self._thread_lane(int(host.track[row])),
                path=self.paths.of(int(host.around[row])),
                step=_step_at(steps, int(host.start_ns[row])),
            )

    def _device(self, steps: tuple[IntArray, IntArray], event_of: dict[int, int]) -> None:
        """Write what ran on streams, and on threads that communicate for the program."""
        host, trace, writer = self.host, self.trace, self.writer
        operation = {call.device: call.operation for call in self.calls}
        kinds = (SPAN_TYPE["kernel"], SPAN_TYPE["copy"], SPAN_TYPE["device"])
        on_device = [number for number, track in enumerate(trace.tracks) if track.device]
        several = len({trace.tracks[number].process for number in on_device}) > 1
        for number in [*on_device, *host.communicating]:
            track = trace.tracks[number]
            if track.device:
                name = f"device {track.process} stream {track.thread}" if several else f"stream {track.thread}"
            else:
                name = f"thread {track.thread}"
            lane = writer.lane(LANE_STREAM if track.device else LANE_OTHER, name)
            rows = np.flatnonzero(host.track == number)
            rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
            launch = host.around[rows]
            start, end, launched = host.start_ns[rows], host.end_ns[rows], host.start_ns[launch]
            columns = (rows, launch, start, end - start, launched, host.kind[rows], host.name[rows])
            for row, by, begin, duration, since, kind, named in zip(*(c.tolist() for c in columns), strict=True):
                attributes: dict[str, int | float | str] = {}
                if by >= 0 and track.device:
                    attributes["queued_ns"] = begin - since
                    attributes["launcher"] = self.thread.get(int(host.track[by]), 0)
                if row in operation:
                    attributes["collective"] = BY_CODE[operation[row]].name
                elif kind == Kind.KERNEL and (inputs := self._inputs_of(by)):
                    attributes["inputs"] = inputs
                elif kind == Kind.COPY and isinstance(trace.arguments.get(row, {}).get("bytes"), int):
                    attributes["bytes"] = trace.arguments[row]["bytes"]
                writer.span(
                    kinds[min(kind, 2)],
                    trace.names[named],
                    self.moment(begin),
                    duration,
                    lane=lane,
                    path=self.paths.of(by),
                    event=event_of.get(row, 0),
                    step=_step_at(steps, since if by >= 0 else begin),
                    attributes=attributes,
                )

    def _inputs_of(self, row: int) -> str:
        """Shapes of what the innermost operator around an event was given, empty where the trace does not say them."""
        chain, known, own = [], self._inputs, self.trace.events.inputs
        while row >= 0 and row not in known and own[row] < 0:
            chain.append(row)
            row = int(self.host.around[row])
        found = -1 if row < 0 else known.get(row, own[row])
        for inner in chain:
            known[inner] = found
        return self.trace.inputs[found] if found >= 0 else ""

    def _activity(self, track: int) -> None:
        """Write what a thread did, tick by tick: as samples, and as spans of what did not change."""
        host, writer, tick = self.host, self.writer, self.axis.tick_ns
        order = host.order[track]
        main = track == host.main
        begin = int(host.start_ns.min() if main else host.start_ns[order[0]])
        end = int(host.end_ns.max() if main else host.end_ns[order].max())
        times = np.arange(begin + tick // 2, end, tick, dtype=np.int64)
        rows = innermost(host.start_ns, host.end_ns, order, times)
        outside = self.paths.table.below(0, Frame(OPERATORS, OUTSIDE)) if main and not self.trace.has_python else 0
        path_of = {row: self.paths.of(row) if row >= 0 else outside for row in np.unique(rows).tolist()}
        paths = np.array([path_of[row] for row in rows.tolist()], np.int64)
        thread, moment = self.thread[track], self.moment
        for time, row, path in zip(times.tolist(), rows.tolist(), paths.tolist(), strict=True):
            if main or row >= 0:
                writer.sample(thread, moment(time), path, -1)
        lane = writer.lane(LANE_THREAD, HOST_ACTIVITY, thread)
        begins = np.flatnonzero(np.append(True, paths[1:] != paths[:-1])) if len(paths) else np.zeros(0, np.int64)
        ends = np.append(begins[1:], len(paths))
        named = partial(self._name_of, main)
        for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
            if rows[first] >= 0 or main:
                name = named(int(rows[first]))
                writer.span(
                    0, name, moment(begin + first * tick), (last - first) * tick, lane=lane, path=int(paths[first])
                )

    def _name_of(self, main: bool, row: int) -> str:
        """What a thread does that is inside an event: the innermost one that is part of call paths."""
        while row >= 0:
            _, frames = self.frames(row)
            if frames:
                return frames[-1].name
            row = int(self.host.around[row])
        return OUTSIDE


def _step_at(steps: tuple[IntArray, IntArray], time_ns: int) -> int:
    """The number of the step that a moment lies in, -1 before the first."""
    at = int(np.searchsorted(steps[0], time_ns, side="right")) - 1
    return int(steps[1][at]) if at >= 0 else -1
