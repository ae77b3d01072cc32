"""Dumps of the flight recorders of several ranks -> a run folder."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.importers.flight_call import FlightCall
from scalana.importers.flight_calls import Flight, flight_of
from scalana.importers.flight_dump import Dump, path_of
from scalana.importers.frames import PathTable
from scalana.runtime.record import layout
from scalana.runtime.record.format import EVENT_BLOCKING, EVENT_POST
from scalana.runtime.record.run_writer import RunWriter
from scalana.runtime.record.writer import RecordWriter

_START_NS = 1_000_000_000
"""Where the earliest call lies on the axis of the records."""


def write(dumps: Sequence[Dump], folder: str, source: str, command: Sequence[str], notes: Sequence[str]) -> None:
    """Write the run folder of some dumps, each of another rank.

    Args:
        dumps: with their ranks known.
        folder: to be made.
        source: folder of the program's source.
        command: what the run says it was.
        notes: what to say of the dumps.

    Raises:
        TraceError: no rank recorded an operation.
        FileExistsError: the folder holds something already.
        OSError: it cannot be written.
    """
    flight = flight_of(dumps)
    every = [call for own in flight.calls for call in own] + [call for call in flight.open if call is not None]
    zero = min(call.start_ns for call in every) if every else flight.end_ns
    end = max([flight.end_ns, *(call.end_ns for call in every)])
    run = RunWriter(folder, {"command": list(command), "cwd": source, "seconds": (end - zero) * 1e-9})
    for dump, calls, stuck in zip(dumps, flight.calls, flight.open, strict=True):
        writer = run.process(
            "imported",
            rank=dump.rank,
            world_size=flight.world_size,
            start_ns=_START_NS,
            unix_ns=zero,
            cwd=source,
        )
        with writer:
            _Record(writer, dump.rank, zero - _START_NS, source).write(flight, calls, stuck, end)
    told = [*notes, *flight.notes]
    if told:
        with open(layout.note_file(folder, "import", 0), "w", encoding="utf-8") as file:
            file.writelines(f"{note}\n" for note in told)


class _Record:
    """Writes the record of one rank."""

    def __init__(self, writer: RecordWriter, rank: int, shift_ns: int, source: str) -> None:
        self.writer, self.rank, self.shift_ns, self.source = writer, rank, shift_ns, source
        self.paths = PathTable(writer)
        self.groups: dict[tuple[str, tuple[int, ...]], int] = {}

    def write(self, flight: Flight, calls: list[FlightCall], stuck: FlightCall | None, end_ns: int) -> None:
        """Write it all."""
        writer = self.writer
        writer.thread(0, 0, "main")
        writer.time(_START_NS)
        for number, call in enumerate(calls):
            event = 2 * (number + 1)
            writer.event(
                event,
                call.operation,
                call.start_ns - self.shift_ns,
                call.end_ns - call.start_ns,
                group=self._group(call),
                seq=call.seq,
                peer=call.peer,
                nbytes=call.entry.nbytes,
                flags=EVENT_BLOCKING if call.blocks else EVENT_POST,
                cpu_ns=-1,
                path=self._path(call),
            )
            if not call.blocks and call.entry.completed_ns:
                writer.done(event, max(call.entry.completed_ns, call.start_ns) - self.shift_ns)
        if stuck is None:
            writer.end(end_ns - self.shift_ns)
            return
        writer.open(
            2 * (len(calls) + 1),
            stuck.operation,
            stuck.start_ns - self.shift_ns,
            end_ns - self.shift_ns,
            group=self._group(stuck),
            seq=stuck.seq,
            peer=stuck.peer,
            path=self._path(stuck),
        )

    def _group(self, call: FlightCall) -> int:
        key = call.entry.group, call.ranks
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = len(self.groups) + 1
            self.writer.group(group, call.entry.group, call.ranks.index(self.rank), call.ranks)
        return group

    def _path(self, call: FlightCall) -> int:
        path = 0
        for frame in path_of(call.entry, self.source):
            path = self.paths.below(path, frame)
        return path
