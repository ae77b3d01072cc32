"""Which formats can be imported, and how each is recognised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scalana.importers import flight_dump, flight_run, kineto, write_run
from scalana.importers.errors import DamagedTrace, TraceError
from scalana.importers.files import TraceFile, trace_files
from scalana.importers.flight_dump import Dump
from scalana.importers.tables import operations, table_run
from scalana.importers.tables.operations import Table
from scalana.importers.trace import RankTrace

Trace = RankTrace | Dump | Table
"""What is read of one file."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format of traces."""

    name: str
    recognises: Callable[[bytes], bool]
    """Whether a file may be one, by its first 512 bytes."""
    read: Callable[[TraceFile], Trace]
    write: Callable[[Any, str, str, Sequence[str], Sequence[str]], None]
    """Makes the run folder of what was read of all files."""
    by_rank: bool = True
    """Whether a file is what one rank wrote."""


FORMATS = (
    Format("table of operations", operations.recognises, operations.read, table_run.write, by_rank=False),
    Format("flight recorder", flight_dump.recognises, flight_dump.read, flight_run.write),
    Format("kineto", kineto.recognises, kineto.read, write_run.write),
)
"""In the order in which they are asked."""


def import_traces(paths: Sequence[str], folder: str, source: str) -> None:
    """Read traces and write the run folder of them.

    Args:
        paths: files, folders and archives.
        folder: to be made.
        source: folder of the program's source.

    Raises:
        TraceError: they cannot be used; the message names the file.
        FileExistsError: the folder holds something already.
        OSError: it cannot be written.
    """
    notes: list[str] = []
    traces: list[Trace] = []
    formats: dict[str, tuple[Format, str]] = {}
    for file in trace_files(paths):
        try:
            form = _format(file)
            traces.append(form.read(file))
            formats.setdefault(form.name, (form, file.name))
        except TraceError as error:
            if file.name in paths and not isinstance(error, DamagedTrace):
                raise
            notes.append(f"left out: {error}")
    if not traces:
        raise TraceError(notes[0].removeprefix("left out: "))
    if len(formats) > 1:
        listed = ", ".join(f"{name} ({name_of})" for name, (_, name_of) in formats.items())
        raise TraceError(f"traces of different tools cannot form one run: {listed}; import them separately")
    ((form, _),) = formats.values()
    if form.by_rank:
        notes += _ranks(traces)
        traces.sort(key=lambda trace: trace.rank)
    form.write(traces, folder, source, ["import", *paths], notes)


def _format(file: TraceFile) -> Format:
    try:
        with file.open() as opened:
            beginning = opened.read(512)
    except (OSError, EOFError) as error:
        raise TraceError(f"{file.name}: cannot be read: {error}") from error
    if not beginning:
        raise DamagedTrace(f"{file.name}: empty file")
    found = next((one for one in FORMATS if one.recognises(beginning)), None)
    if found is None:
        known = ", ".join(one.name for one in FORMATS)
        raise TraceError(f"{file.name}: not a supported trace format ({known})")
    return found


def _ranks(traces: list[Trace]) -> list[str]:
    """See to it that every trace has a rank of its own; returns what to tell of it.

    Raises:
        TraceError: some have none, or two have the same.
    """
    without = [trace for trace in traces if trace.rank < 0]
    notes = []
    if len(without) == len(traces):
        for rank, trace in enumerate(traces):
            trace.rank = rank
        if len(traces) > 1:
            notes.append("the traces contain no ranks: they are numbered by file name")
    elif without:
        raise TraceError(f"{without[0].file}: contains no rank, unlike others: put the rank into its name (rank3.json)")
    known: dict[int, str] = {}
    for trace in traces:
        if trace.rank in known:
            raise TraceError(f"{trace.file} and {known[trace.rank]} are both of rank {trace.rank}: import one of them")
        known[trace.rank] = trace.file
    return notes
