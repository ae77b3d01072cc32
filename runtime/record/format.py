"""What a record of one process looks like inside, for reading; :mod:`.writer` writes it.

A record file is the 8 bytes ``SCALANA1``, a version (u32, 2), the oldest version of a reader that can make sense of the
file (u32, 2; 0 in version 1: the version itself), and then blocks: magic ``0x4B4C4253``, payload length, CRC-32 of the
payload (zlib's polynomial) and block number, each a little-endian u32, and the payload, a sequence of records. A record
is a kind (u8) and its fields: LEB128 varints, signed ones zig-zag coded, strings as a varint length and UTF-8 (bytes of
file names that are not UTF-8 stand as they are: ``surrogateescape`` in Python). From kind 16 on the size of all fields,
a varint, stands before them. A block needs nothing of other blocks but the definitions (kinds 2, 3, 4, 7, 15, 16, 17)
before it.

**Versions.** This reader reads versions 1 and 2, and every later one whose files say that a reader of version 2 will
do. Records of a kind from 16 on that it does not know are skipped, and told once a kind; so are fields behind those
that it knows of these kinds. A writer that changes what kinds below 16 mean, or adds one of these, has to ask for a
newer reader: that alone makes a file unreadable. Version 1 had kind 10 for regions and steps, too, which are read as
spans.

====  ==========  ====================================================================================================
kind  record      fields
====  ==========  ====================================================================================================
1     META        key, value (the later wins)
2     CODE        id, file, qualified name, first line, Python's minor version (0: no line table), line table; with
                  version 1 a module of native code: file, build id, 0, 1, nothing
3     PATH        id, parent path (0 root), code, byte offset of the instruction (the line if version is 0; the address
                  that the file has it at if version is 1; one less than the return address but for the innermost)
4     THREAD      index, kernel id, name, flags (1 main, 2 has Python frames, 4 has none); the later wins
5     TIME        CLOCK_MONOTONIC ns: base of the times that follow in this block
6     SAMPLE      thread, us since the previous sample or the base (signed), path, CPU us, core wait us, state
7     GROUP       id, name, my rank in it, size, world ranks
8     EVENT       id, thread, operation, group, seq, peer (signed), tag (signed), bytes, flags, enter (signed ns from
                  base), duration ns, thread CPU ns at enter, CPU ns inside, path, event that it completes or 0
9     DONE        event, completion (signed ns from base), CPU ns of the issuing thread then (0 unknown), source
                  (signed)
10    UNWRITTEN   7, thread, 0, start (signed ns from base), duration ns, CPU ns, 0: how long the thread was in calls
                  that were not written since the last one that was, up to its next event; in version 1 intervals of a
                  type
11    TOTAL       path, operation, group, calls, bytes, wall ns, CPU ns: since the start; the later wins
12    OPEN        thread, event, operation, group, seq, peer (signed), path, enter (signed ns from base): the thread is
                  inside this call as of the base
13    NOTE        text: something could not be recorded
14    END         signed ns from base, exit status or -1 (signed)
15    GROUP       as 7, but for size and ranks: how many strides follow, and of each its first rank, step (signed) and
                  ranks
16    STRING      id, text: a name, key or text of a span
17    LANE        id, kind (0 thread, 1 device's stream, 2 slot of an engine, 3 stage, 4 other), thread + 1 or 0, name
18    SPAN        type, lane, name (string), start (signed ns from base), duration ns, CPU ns + 1 (0 unknown), path,
                  event whose side on a device it is or 0, step + 1 (0 outside of any), number of attributes, and of
                  each: key (string), tag, value (tag 0 signed, 1 IEEE double in 8 bytes, 2 a string)
19    SPAN TOTAL  type, lane, name, path, spans, wall ns, CPU ns as far as known: since the start; the later wins
====  ==========  ====================================================================================================

**Unknown CPU time**, of records that were imported: flag 128 of an event says it of both its CPU times, 8 added to the
state of a sample of its CPU time and its wait for a core. They are -1 in the columns.

**Spans** have a type of :data:`SPAN_TYPES`; a kind that is not there is ``other``, with the attribute ``kind``. A step
is a span of its own, written at its end, with the attribute ``source`` (user, optimizer, schedule, trainer); its number
is how many marks of this source came before the one that ends it, so that it is the same on all ranks.

**Thinning.** Past half of the size budget, each halving of what is left raises the level L by one; so does a rate of
MPI calls beyond what is written one by one. A communication call is kept if and only if ``key_hash % 2**L == 0``, where
the key is the same on all ranks that take part, see ``collective_key`` and ``message_key`` of :mod:`.writer`. The level
is in bits 8 and up of the event's flags. A completion (wait, DONE) is kept if its post was; odd event ids are those
that were not kept. Receives from any source are kept up to level 3, unless they were numbered in their channel when
they were complete (flag 32). TOTAL counts all calls.

Spans are thinned by steps. All spans of a step are kept if and only if ``step_key % 2**L == 0`` at the level L that the
process had when the step began (of the budget but for the last 16th), so that ranks at one level have the same steps,
and one at a higher level some of these. Spans outside of any step are kept up to level 1. A step whose spans raise the
level by three is cut off there. The step itself is kept as long as there is room (up to level 6, and from there on if
``step_key % 2**(L - 7) == 0``); where its spans are not all there, it has the attribute ``thinned``. From the first
span on that is left out there are SPAN TOTALs of all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .codes import Code, Codes
from .columns import (
    AttributeColumns,
    DoneColumns,
    EventColumns,
    IntColumn,
    Lane,
    OpenColumns,
    PathColumns,
    SampleColumns,
    SpanColumns,
    SpanTotalColumns,
    TotalColumns,
    UnwrittenColumns,
)
from .line_tables import NO_LINE_TABLE, Position, packed, position

__all__ = [
    "AttributeColumns",
    "Code",
    "Codes",
    "Decoder",
    "DoneColumns",
    "EventColumns",
    "Frame",
    "Group",
    "Lane",
    "NATIVE_MODULE",
    "NO_LINE_TABLE",
    "OpenColumns",
    "PathColumns",
    "Position",
    "ProcessRecord",
    "RecordError",
    "SPAN_TYPE",
    "SPAN_TYPES",
    "SampleColumns",
    "SpanColumns",
    "SpanTotalColumns",
    "Thread",
    "TotalColumns",
    "UnwrittenColumns",
    "compiled_decoder",
    "packed",
    "position",
]

META, CODE, PATH, THREAD, TIME, SAMPLE, GROUP, EVENT, DONE, UNWRITTEN, TOTAL, OPEN, NOTE, END = range(1, 15)
STRIDED_GROUP, STRING, LANE, SPAN, SPAN_TOTAL = range(15, 20)

EVENT_BLOCKING, EVENT_POST, EVENT_COMPLETION, EVENT_FROM_CXX, EVENT_ANY_SOURCE = 1, 2, 4, 8, 16
EVENT_NUMBERED = 32
"""Of a receive from anybody: it was numbered in its channel when it was complete."""
EVENT_WITHDRAWN = 64
"""Of a completion: the receive that it completes was cancelled. Its communicator, peer, tag and number are told here
too, as the receive itself may not be written. Receives that were pending behind it have one less from then on."""
EVENT_LEVEL_SHIFT = 8
THREAD_MAIN, THREAD_PYTHON, THREAD_NATIVE = 1, 2, 4
NATIVE_MODULE = 1
"""In place of Python's minor version: the code stands for an executable or a library."""
STATE_RUNNING, STATE_ASLEEP, STATE_LOCK, STATE_IPC, STATE_DISK, STATE_UNKNOWN = range(6)
STATE_CPU_UNKNOWN, EVENT_CPU_UNKNOWN = 8, 128
"""In a file alone: nobody read the CPU clock of the thread."""
UNWRITTEN_CALLS = 7

SPAN_TYPES = (
    "other", "region", "step", "phase", "module", "device", "action", "", "trajectory", "request", "kernel", "copy",
    "transfer", "optimizer", "data", "wait", "await", "collection", "serialisation",
)  # fmt: skip
"""What the types of spans are called, by their numbers; the same as in ``_core/module/span_types.h``."""
SPAN_TYPE = {name: number for number, name in enumerate(SPAN_TYPES) if name}
REGION, STEP = SPAN_TYPE["region"], SPAN_TYPE["step"]
LANE_THREAD, LANE_STREAM, LANE_SLOT, LANE_STAGE, LANE_OTHER = range(5)
HOST_ACTIVITY = "host activity"
"""Name of a thread's lane on which spans follow each other and say what the thread did: the host's side of a device."""
ATTRIBUTE_NUMBER, ATTRIBUTE_REAL, ATTRIBUTE_TEXT = range(3)


class RecordError(Exception):
    """A run folder or record cannot be used. The message names the file and says why."""


# ---- reading ----


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a process."""

    index: int
    tid: int
    """Kernel id; the kernel may have reused it."""
    name: str
    flags: int

    @property
    def is_main(self) -> bool:
        return bool(self.flags & THREAD_MAIN)

    @property
    def has_python(self) -> bool:
        """Whether Python frames were seen in it."""
        return bool(self.flags & THREAD_PYTHON)


class Group(NamedTuple):
    """One communicator, as seen by this process."""

    id: int
    name: str
    """The same on all members."""
    my_rank: int
    ranks: IntColumn
    """World ranks of the members, in the order of their ranks in the group."""


class Frame(NamedTuple):
    """One frame of a call path."""

    code: Code
    lasti: int
    line: int


def _ints(values: Iterable[int], kind: str) -> IntColumn:
    numbers = list(values)
    return memoryview(struct.pack(f"{len(numbers)}{kind}", *numbers)).cast(kind)  # type: ignore[call-overload,no-any-return]


def _path_columns(columns: Sequence[IntColumn], dense: bool) -> PathColumns:
    """Rows by id. Ids are dense unless blocks were lost, whose paths then get the root as parent and no code."""
    ids, parent, code, lasti = columns
    if dense:
        return PathColumns(parent, code, lasti)
    rows = {path: row for row, path in enumerate(ids) if 0 < path < 1 << 28}
    size = max(rows, default=0) + 1
    table = [(parent[rows[p]], code[rows[p]], lasti[rows[p]]) if p in rows else (0, 0, 0) for p in range(size)]
    # A parent comes before its child, so that no walk to the root can go in circles.
    return PathColumns(
        _ints((up if 0 <= up < p else 0 for p, (up, _, _) in enumerate(table)), "i"),
        _ints((row[1] for row in table), "i"),
        _ints((row[2] for row in table), "i"),
    )


def _latest(columns: Sequence[IntColumn], keys: int) -> Sequence[IntColumn]:
    """Of rows whose first ``keys`` columns are the same, the last."""
    latest = {key: row for row, key in enumerate(zip(*columns[:keys], strict=True))}
    if len(latest) == len(columns[0]):
        return columns
    rows = sorted(latest.values())
    return [_ints((column[row] for row in rows), column.format) for column in columns]


Decoder = Callable[..., dict[str, Any]]
"""Reads a file into columns: ``read`` of the C extension, or another one with the same arguments and result."""


def compiled_decoder() -> Decoder | None:
    """That of the C extension; None where there is none for this Python or this system."""
    try:
        from scalana.runtime import _core  # only readers need it
    except ImportError:
        return None
    return _core.read  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the records of a run have in common, made once for all that are read with it."""

    codes: list[Code] = field(default_factory=list)
    """Each once."""
    code_rows: dict[bytes, int] = field(default_factory=dict)
    """Their rows by what stands in the file."""
    ranks: dict[tuple[bool, bytes], IntColumn] = field(default_factory=dict)
    """World ranks of groups, likewise."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """All that one process has recorded."""

    file: Path
    meta: dict[str, str]
    codes: Mapping[int, Code]
    paths: PathColumns
    threads: dict[int, Thread]
    groups: dict[int, Group]
    names: list[str]
    """Names, keys and texts of spans, each once; the first is empty, and stands for those that were lost."""
    lanes: list[Lane]
    """The first stands for those that are not known."""
    samples: SampleColumns
    events: EventColumns
    done: DoneColumns
    unwritten: UnwrittenColumns
    spans: SpanColumns
    attributes: AttributeColumns
    """Of spans."""
    span_totals: SpanTotalColumns
    totals: TotalColumns
    open: OpenColumns
    notes: list[str]
    """What the recorder could not record."""
    troubles: list[str]
    """What could not be read: torn or damaged blocks."""
    ended: bool
    """Whether the record has a clean end; otherwise the process was killed, or still runs."""
    status: int
    """Exit status, -1 unknown."""
    first_ns: int
    """Earliest moment in the record on CLOCK_MONOTONIC, 0 if it holds none."""
    last_ns: int
    """Latest moment in it."""

    @classmethod
    def read(
        cls, file: str | os.PathLike[str], shared: Shared | None = None, decoder: Decoder | None = None
    ) -> ProcessRecord:
        """Reads one record file.

        Records that are read with the same ``shared`` have their codes and groups in common. ``decoder`` is that of the
        C extension unless another one is given.

        Raises:
            RecordError: it cannot be read, or is no record. Damage inside of it is in :attr:`troubles` instead.
        """
        decode = decoder or compiled_decoder()
        if decode is None:
            raise RecordError(f"{os.fspath(file)}: this scalana has no compiled reader for this Python")
        try:
            shared = shared or Shared()
            data = decode(os.fspath(file), Code, shared.codes, shared.code_rows, shared.ranks)
        except OSError as error:
            raise RecordError(f"{os.fspath(file)}: {error.strerror}") from error
        except ValueError as error:
            raise RecordError(str(error)) from error
        return cls(
            file=Path(file),
            meta=dict(data["meta"]),
            codes=Codes(data["codes"][0], data["codes"][1], shared.codes),
            paths=_path_columns(data["paths"], data["dense_paths"]),
            threads={row[0]: Thread(*row) for row in data["threads"]},
            groups={row[0]: Group(*row) for row in data["groups"]},
            names=data["names"],
            samples=SampleColumns(*data["samples"]),
            events=EventColumns(*data["events"]),
            done=DoneColumns(*data["done"]),
            lanes=[Lane(*row) for row in data["lanes"]],
            unwritten=UnwrittenColumns(*data["unwritten"]),
            spans=SpanColumns(*data["spans"]),
            attributes=AttributeColumns(*data["attributes"]),
            span_totals=SpanTotalColumns(*_latest(data["span_totals"], 4)),
            totals=TotalColumns(*_latest(data["totals"], 3)),
            open=OpenColumns(*data["open"]),
            notes=data["notes"],
            troubles=data["troubles"],
            ended=data["ended"],
            status=data["status"],
            first_ns=data["first_ns"],
            last_ns=data["last_ns"],
        )

    def number(self, key: str, default: int = -1) -> int:
        """A META value as an int; ``default`` where it is missing or no number."""
        try:
            return int(self.meta.get(key, ""))
        except ValueError:
            return default

    @property
    def rank(self) -> int:
        """World rank, -1 for a process that has none."""
        return self.number("rank")

    @property
    def role(self) -> str:
        """``rank``, ``child``, ``launcher`` or ``process``."""
        return self.meta.get("role", "process")

    def steps(self, path: int) -> list[tuple[int, int]]:
        """Code id and instruction offset of each frame of a path, outermost first."""
        steps: list[tuple[int, int]] = []
        paths = self.paths
        while 0 < path < len(paths):
            steps.append((paths.code[path], paths.lasti[path]))
            path = paths.parent[path]
        steps.reverse()
        return steps

    def frames(self, path: int) -> list[Frame]:
        """Frames of a path, outermost first; those whose definition was lost are left out."""
        frames = []
        for code_id, lasti in self.steps(path):
            code = self.codes.get(code_id)
            if code is not None:
                frames.append(Frame(code, lasti, code.position(lasti).line))
        return frames
