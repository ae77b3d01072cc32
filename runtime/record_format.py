"""What a run folder looks like inside: the only Python module that knows.

::

    DIR/run.json                       what was run; may be missing
    DIR/records/<host>-<pid>-<n>.rec   one per recorded process

A record file is the 8 bytes ``SCALANA1``, a version (u32, 1) and a reserved u32, and then blocks: magic
``0x4B4C4253``, payload length, CRC-32 of the payload (zlib's polynomial) and block number, each a little-endian u32,
and the payload, a sequence of records. A record is a kind (u8) and its fields: LEB128 varints, signed ones zig-zag
coded, strings as a varint length and UTF-8 (bytes of file names that are not UTF-8 stand as they are:
``surrogateescape`` in Python).
A block needs nothing of other blocks but the definitions (kinds 2, 3, 4, 7) before it.

====  ========  ==========================================================================================
kind  record    fields
====  ========  ==========================================================================================
1     META      key, value (the later wins)
2     CODE      id, file, qualified name, first line, Python's minor version (0: no line table), line table; with
                version 1 a module of native code: file, build id, 0, 1, nothing
3     PATH      id, parent path (0 root), code, byte offset of the instruction (the line if version is 0; the address
                that the file has it at if version is 1; one less than the return address but for the innermost)
4     THREAD    index, kernel id, name, flags (1 main, 2 has Python frames, 4 has none); the later wins
5     TIME      CLOCK_MONOTONIC ns: base of the times that follow in this block
6     SAMPLE    thread, us since the previous sample or the base (signed), path, CPU us, core wait us, state
7     GROUP     id, name, my rank in it, size, world ranks
8     EVENT     id, thread, operation, group, seq, peer (signed), tag (signed), bytes, flags, enter (signed ns from
                base), duration ns, thread CPU ns at enter, CPU ns inside, path, event that it completes or 0
9     DONE      event, completion (signed ns from base), CPU ns of the issuing thread then (0 unknown), source (signed)
10    INTERVAL  type, thread, name, start (signed ns from base), duration ns, CPU ns, path
11    TOTAL     path, operation, group, calls, bytes, wall ns, CPU ns: since the start; the later wins
12    OPEN      thread, event, operation, group, seq, peer (signed), path, enter (signed ns from base): the thread is
                inside this call as of the base
13    NOTE      text: something could not be recorded
14    END       signed ns from base, exit status or -1 (signed)
====  ========  ==========================================================================================

**Thinning.** Past half of the size budget, each halving of what is left raises the level L by one. A communication
call is kept if and only if ``key_hash % 2**L == 0``, where the key is the same on all ranks that take part: see
:func:`collective_key` and :func:`message_key`. The level stands in bits 8 and up of the event's flags. A completion
(wait, DONE) is kept if its post was; odd event ids are those that were not kept. Receives from any source are kept up
to level 3.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from .line_tables import NO_LINE_TABLE, Position, position

if TYPE_CHECKING:
    IntColumn = memoryview[int]
else:
    IntColumn = memoryview

__all__ = [
    "Code",
    "DoneColumns",
    "EventColumns",
    "Frame",
    "Group",
    "IntervalColumns",
    "NATIVE_MODULE",
    "NO_LINE_TABLE",
    "OpenColumns",
    "PathColumns",
    "Position",
    "ProcessRecord",
    "RecordError",
    "RecordWriter",
    "RunFolder",
    "SampleColumns",
    "Thread",
    "TotalColumns",
    "collective_key",
    "message_key",
    "new_record_path",
    "position",
    "write_run_info",
]

META, CODE, PATH, THREAD, TIME, SAMPLE, GROUP, EVENT, DONE, INTERVAL, TOTAL, OPEN, NOTE, END = range(1, 15)

EVENT_BLOCKING, EVENT_POST, EVENT_COMPLETION, EVENT_FROM_CXX, EVENT_ANY_SOURCE = 1, 2, 4, 8, 16
EVENT_LEVEL_SHIFT = 8
THREAD_MAIN, THREAD_PYTHON, THREAD_NATIVE = 1, 2, 4
NATIVE_MODULE = 1
"""In place of Python's minor version: the code stands for an executable or a library."""
STATE_RUNNING, STATE_ASLEEP, STATE_LOCK, STATE_IPC, STATE_DISK, STATE_UNKNOWN = range(6)
INTERVAL_REGION, INTERVAL_STEP, INTERVAL_PHASE, INTERVAL_MODULE, INTERVAL_DEVICE, INTERVAL_PIPELINE = range(1, 7)

_FILE_MAGIC = b"SCALANA1"
_VERSION = 1
_BLOCK_MAGIC = 0x4B4C4253


class RecordError(Exception):
    """A run folder or record cannot be used. The message names the file and says why."""


# ---- reading ----


class Code(NamedTuple):
    """One code object, or a native or synthetic place."""

    id: int
    filename: str
    name: str
    """Qualified name."""
    first_line: int
    minor: int
    """Minor version of the Python that made the line table; 0 where there is none."""
    line_table: bytes

    def position(self, lasti: int) -> Position:
        """Position of the instruction at byte offset ``lasti``."""
        return position(self.line_table, self.minor, self.first_line, lasti)


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


@dataclass(frozen=True, slots=True)
class PathColumns:
    """Call paths, indexed by path id; row 0 is the root. A path is its parent's path and one more frame inside."""

    parent: IntColumn
    code: IntColumn
    """Id in :attr:`ProcessRecord.codes`; 0 for the root and for paths whose definition was lost."""
    lasti: IntColumn

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples, in the order of writing (per thread: of time)."""

    thread: IntColumn
    """int32: index in :attr:`ProcessRecord.threads`."""
    time_ns: IntColumn
    """int64: CLOCK_MONOTONIC, in steps of 1 us."""
    path: IntColumn
    """int32; 0 where the thread had no frame outside of scalana's runtime."""
    cpu_us: IntColumn
    """int64: CPU time of the thread since its previous sample."""
    core_wait_us: IntColumn
    """int64: time that it was runnable without a core since then."""
    state: IntColumn
    """int32: ``STATE_*`` at this moment."""

    def __len__(self) -> int:
        return len(self.thread)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Communication calls, in the order of their ends."""

    id: IntColumn
    """int64"""
    thread: IntColumn
    """int32"""
    operation: IntColumn
    """int32: code in ``scalana.runtime.operations``."""
    group: IntColumn
    """int32: id in :attr:`ProcessRecord.groups`, 0 none."""
    seq: IntColumn
    """int64"""
    peer: IntColumn
    """int32: world rank of the peer or root, -1 none."""
    tag: IntColumn
    """int64"""
    nbytes: IntColumn
    """int64"""
    flags: IntColumn
    """int32: ``EVENT_*``, and the thinning level from bit 8."""
    enter_ns: IntColumn
    """int64: CLOCK_MONOTONIC."""
    duration_ns: IntColumn
    """int64"""
    cpu_enter_ns: IntColumn
    """int64: CPU clock of the thread at enter."""
    cpu_ns: IntColumn
    """int64: CPU time of the thread inside the call."""
    path: IntColumn
    """int32"""
    completes: IntColumn
    """int64: id of the post that this call completes, 0 none."""

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True)
class DoneColumns:
    """Completions of posted operations, as seen by whichever thread saw them."""

    event: IntColumn
    """int64: id of the post."""
    time_ns: IntColumn
    """int64"""
    cpu_ns: IntColumn
    """int64: CPU clock of the thread that posted it, then; 0 unknown."""
    source: IntColumn
    """int32: world rank of the sender, -1 unknown."""

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class IntervalColumns:
    """Named stretches of time."""

    type: IntColumn
    """int32: ``INTERVAL_*``."""
    thread: IntColumn
    """int32"""
    name: IntColumn
    """int32: index in :attr:`ProcessRecord.names`."""
    start_ns: IntColumn
    """int64"""
    duration_ns: IntColumn
    """int64"""
    cpu_ns: IntColumn
    """int64"""
    path: IntColumn
    """int32"""

    def __len__(self) -> int:
        return len(self.type)


@dataclass(frozen=True, slots=True)
class TotalColumns:
    """Exact totals per (path, operation, group): the latest that were written. All calls count, thinned or not."""

    path: IntColumn
    """int32"""
    operation: IntColumn
    """int32"""
    group: IntColumn
    """int32"""
    calls: IntColumn
    """int64"""
    nbytes: IntColumn
    """int64"""
    wall_ns: IntColumn
    """int64"""
    cpu_ns: IntColumn
    """int64"""

    def __len__(self) -> int:
        return len(self.path)


@dataclass(frozen=True, slots=True)
class OpenColumns:
    """Calls that a thread was inside of at a flush. One call is here once for every flush that it lasted for."""

    thread: IntColumn
    """int32"""
    event: IntColumn
    """int64"""
    operation: IntColumn
    """int32"""
    group: IntColumn
    """int32"""
    seq: IntColumn
    """int64"""
    peer: IntColumn
    """int32"""
    path: IntColumn
    """int32"""
    enter_ns: IntColumn
    """int64"""
    as_of_ns: IntColumn
    """int64: when the thread was still inside."""

    def __len__(self) -> int:
        return len(self.thread)


_SAMPLE_TYPES = "iqiqqi"
_EVENT_TYPES = "qiiiqiqqiqqqqiq"
_DONE_TYPES = "qqqi"
_INTERVAL_TYPES = "iiiqqqi"
_TOTAL_TYPES = "iiiqqqq"
_OPEN_TYPES = "iqiiqiiqq"


def _columns(data: Iterable[bytes], types: str) -> list[IntColumn]:
    return [memoryview(column).cast(kind) for column, kind in zip(data, types, strict=True)]  # type: ignore[call-overload]


def _ints(values: Iterable[int], kind: str) -> IntColumn:
    numbers = list(values)
    return memoryview(struct.pack(f"{len(numbers)}{kind}", *numbers)).cast(kind)  # type: ignore[call-overload,no-any-return]


def _path_columns(data: tuple[bytes, bytes, bytes, bytes]) -> PathColumns:
    """Rows by id. Ids are dense unless blocks were lost, whose paths then get the root as parent and no code."""
    ids, parent, code, lasti = _columns(data, "iiii")
    count = len(ids)
    if ids.tobytes() == _ints(range(1, count + 1), "i").tobytes():
        root = bytes(4)
        parent, code, lasti = (memoryview(root + column).cast("i") for column in data[1:])
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


def _latest_totals(data: Iterable[bytes]) -> TotalColumns:
    columns = _columns(data, _TOTAL_TYPES)
    path, operation, group = columns[:3]
    latest = {key: row for row, key in enumerate(zip(path, operation, group, strict=True))}
    if len(latest) == len(path):
        return TotalColumns(*columns)
    rows = sorted(latest.values())
    return TotalColumns(
        *(_ints((column[row] for row in rows), kind) for column, kind in zip(columns, _TOTAL_TYPES, strict=True))
    )


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """All that one process has recorded."""

    file: Path
    meta: dict[str, str]
    codes: dict[int, Code]
    paths: PathColumns
    threads: dict[int, Thread]
    groups: dict[int, Group]
    names: list[str]
    """Names of intervals."""
    samples: SampleColumns
    events: EventColumns
    done: DoneColumns
    intervals: IntervalColumns
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
    def read(cls, file: str | os.PathLike[str]) -> ProcessRecord:
        """Reads one record file.

        Raises:
            RecordError: it cannot be read, or is no record. Damage inside of it is in :attr:`troubles` instead.
        """
        from . import _core  # only readers need the extension

        try:
            data = _core.read(os.fspath(file))
        except OSError as error:
            raise RecordError(f"{os.fspath(file)}: {error.strerror}") from error
        except ValueError as error:
            raise RecordError(str(error)) from error
        return cls(
            file=Path(file),
            meta=dict(data["meta"]),
            codes={row[0]: Code(*row) for row in data["codes"]},
            paths=_path_columns(data["paths"]),
            threads={row[0]: Thread(*row) for row in data["threads"]},
            groups={row[0]: Group(row[0], row[1], row[2], memoryview(row[3]).cast("i")) for row in data["groups"]},
            names=data["names"],
            samples=SampleColumns(*_columns(data["samples"], _SAMPLE_TYPES)),
            events=EventColumns(*_columns(data["events"], _EVENT_TYPES)),
            done=DoneColumns(*_columns(data["done"], _DONE_TYPES)),
            intervals=IntervalColumns(*_columns(data["intervals"], _INTERVAL_TYPES)),
            totals=_latest_totals(data["totals"]),
            open=OpenColumns(*_columns(data["open"], _OPEN_TYPES)),
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


class RunFolder:
    """A run folder, for reading.

    Raises:
        RecordError: there is no such folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise RecordError(f"{self.path}: no such run folder")
        self.troubles: list[str] = []
        """Files that could not be used, with the reason, after :meth:`processes`."""

    @property
    def info(self) -> dict[str, Any]:
        """Contents of ``run.json``; empty where it is missing.

        Raises:
            RecordError: it is there, but is not a JSON object.
        """
        file = self.path / "run.json"
        try:
            info = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RecordError(f"{file}: {error}") from error
        if not isinstance(info, dict):
            raise RecordError(f"{file}: not a JSON object")
        return info

    def record_files(self) -> list[Path]:
        """Record files, by name."""
        return sorted((self.path / "records").glob("*.rec"))

    def notes(self) -> list[str]:
        """What processes left behind that could not open a record, each note once."""
        notes: dict[str, None] = {}
        for file in sorted((self.path / "records").glob("*.note")):
            try:
                text = file.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            notes.update(dict.fromkeys(line for line in text.splitlines() if line.strip()))
        return list(notes)

    def processes(self) -> list[ProcessRecord]:
        """Reads all records, ranks first and in order.

        Raises:
            RecordError: not one could be read.
        """
        records = list(self._read_all())
        if not records:
            why = "; ".join(self.troubles) or "no records in it"
            raise RecordError(f"{self.path}: {why}")
        return sorted(records, key=lambda record: (record.rank < 0, record.rank, record.file.name))

    def _read_all(self) -> Iterator[ProcessRecord]:
        self.troubles = []
        for file in self.record_files():
            try:
                yield ProcessRecord.read(file)
            except RecordError as error:
                self.troubles.append(str(error))


# ---- writing ----


def write_run_info(folder: str | os.PathLike[str], info: Mapping[str, Any]) -> None:
    """Writes ``run.json``, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=".run-", suffix=".json", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(info), file, indent=1)
            file.write("\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, Path(folder) / "run.json")
    except BaseException:
        os.unlink(temporary)
        raise


def new_record_path(folder: str | os.PathLike[str]) -> Path:
    """A free name for the record of this process. Makes the folder of records if need be.

    Raises:
        OSError: the folder cannot be made.
    """
    records = Path(folder) / "records"
    records.mkdir(parents=True, exist_ok=True)
    host = re.sub(r"[^A-Za-z0-9.]+", "_", socket.gethostname()) or "host"
    number = 0
    while (path := records / f"{host}-{os.getpid()}-{number}.rec").exists():
        number += 1
    return path


def _fnv(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _finish(value: int) -> int:
    """The 64-bit finalizer of MurmurHash3."""
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & 0xFFFFFFFFFFFFFFFF
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & 0xFFFFFFFFFFFFFFFF
    return value ^ value >> 33


def collective_key(name: str, seq: int) -> int:
    """Thinning hash of a collective: its communicator's name and its number there."""
    return _finish(_fnv(name.encode("utf-8", "surrogateescape") + struct.pack("<Q", seq)))


def message_key(source: int, destination: int, tag: int, seq: int) -> int:
    """Thinning hash of a message: world ranks, tag, and its number in this channel."""
    return _finish(_fnv(struct.pack("<qqqQ", source, destination, tag, seq)))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _signed(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogateescape")
    return _varint(len(encoded)) + encoded


@dataclass
class RecordWriter:
    """Writes a record in plain Python: for generators of synthetic runs, importers and tests.

    Ids are the caller's. Times are absolute, on one clock. Use as a context manager, or call :meth:`close`.

    Raises:
        OSError: the file cannot be written.
    """

    path: str | os.PathLike[str]
    block_bytes: int = 256 << 10
    _payload: bytearray = field(default_factory=bytearray, init=False, repr=False)
    _base_ns: int = field(default=0, init=False, repr=False)
    _sample_us: int = field(default=0, init=False, repr=False)
    _blocks: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._file = open(self.path, "xb")  # noqa: SIM115  closed by close()
        self._file.write(_FILE_MAGIC + struct.pack("<II", _VERSION, 0))

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, kind: int, *fields: bytes) -> None:
        self._payload.append(kind)
        for encoded in fields:
            self._payload += encoded
        if len(self._payload) >= self.block_bytes:
            self.flush()

    def _delta(self, time_ns: int) -> bytes:
        """``time_ns`` from the base, which is set if there is none. To be called before the record is put."""
        if not self._base_ns:
            self.time(time_ns)
        return _signed(time_ns - self._base_ns)

    def meta(self, key: str, value: str) -> None:
        self._put(META, _text(key), _text(value))

    def note(self, text: str) -> None:
        self._put(NOTE, _text(text))

    def code(
        self,
        id: int,
        filename: str,
        name: str,
        first_line: int = 1,
        minor: int = NO_LINE_TABLE,
        line_table: bytes = b"",
    ) -> None:
        self._put(
            CODE,
            _varint(id),
            _text(filename),
            _text(name),
            _varint(first_line),
            _varint(minor),
            _varint(len(line_table)) + line_table,
        )

    def call_path(self, id: int, parent: int, code: int, lasti: int) -> None:
        self._put(PATH, _varint(id), _varint(parent), _varint(code), _varint(lasti))

    def thread(self, index: int, tid: int, name: str = "python", flags: int = THREAD_MAIN | THREAD_PYTHON) -> None:
        self._put(THREAD, _varint(index), _varint(tid), _text(name), _varint(flags))

    def time(self, now_ns: int) -> None:
        """Sets the base of the times that follow in this block."""
        self._base_ns = now_ns
        self._sample_us = 0
        self._payload.append(TIME)
        self._payload += _varint(now_ns)

    def sample(
        self,
        thread: int,
        time_ns: int,
        path: int,
        cpu_us: int = 0,
        core_wait_us: int = 0,
        state: int = STATE_RUNNING,
    ) -> None:
        if not self._base_ns:
            self.time(time_ns)
        since_ns = time_ns - self._base_ns
        us = since_ns // 1000 if since_ns >= 0 else -(-since_ns // 1000)
        step = us - self._sample_us
        self._sample_us = us
        self._put(
            SAMPLE,
            _varint(thread),
            _signed(step),
            _varint(path),
            _varint(cpu_us),
            _varint(core_wait_us),
            _varint(state),
        )

    def group(self, id: int, name: str, my_rank: int, ranks: Iterable[int]) -> None:
        members = [_varint(rank) for rank in ranks]
        self._put(GROUP, _varint(id), _text(name), _varint(my_rank), _varint(len(members)), *members)

    def event(
        self,
        id: int,
        operation: int,
        enter_ns: int,
        duration_ns: int,
        *,
        thread: int = 0,
        group: int = 0,
        seq: int = 0,
        peer: int = -1,
        tag: int = 0,
        nbytes: int = 0,
        flags: int = EVENT_BLOCKING,
        cpu_enter_ns: int = 0,
        cpu_ns: int = 0,
        path: int = 0,
        completes: int = 0,
    ) -> None:
        enter = self._delta(enter_ns)
        self._put(
            EVENT,
            _varint(id),
            _varint(thread),
            _varint(operation),
            _varint(group),
            _varint(seq),
            _signed(peer),
            _signed(tag),
            _varint(nbytes),
            _varint(flags),
            enter,
            _varint(duration_ns),
            _varint(cpu_enter_ns),
            _varint(cpu_ns),
            _varint(path),
            _varint(completes),
        )

    def done(self, event: int, time_ns: int, cpu_ns: int = 0, source: int = -1) -> None:
        when = self._delta(time_ns)
        self._put(DONE, _varint(event), when, _varint(cpu_ns), _signed(source))

    def interval(
        self,
        type: int,
        name: str,
        start_ns: int,
        duration_ns: int,
        *,
        thread: int = 0,
        cpu_ns: int = 0,
        path: int = 0,
    ) -> None:
        start = self._delta(start_ns)
        self._put(
            INTERVAL,
            _varint(type),
            _varint(thread),
            _text(name),
            start,
            _varint(duration_ns),
            _varint(cpu_ns),
            _varint(path),
        )

    def total(self, path: int, operation: int, group: int, calls: int, nbytes: int, wall_ns: int, cpu_ns: int) -> None:
        self._put(TOTAL, *map(_varint, (path, operation, group, calls, nbytes, wall_ns, cpu_ns)))

    def open(
        self,
        event: int,
        operation: int,
        enter_ns: int,
        as_of_ns: int,
        *,
        thread: int = 0,
        group: int = 0,
        seq: int = 0,
        peer: int = -1,
        path: int = 0,
    ) -> None:
        self.time(as_of_ns)
        self._put(
            OPEN,
            _varint(thread),
            _varint(event),
            _varint(operation),
            _varint(group),
            _varint(seq),
            _signed(peer),
            _varint(path),
            _signed(enter_ns - as_of_ns),
        )

    def end(self, time_ns: int, status: int = 0) -> None:
        when = self._delta(time_ns)
        self._put(END, when, _signed(status))

    def flush(self) -> None:
        """Ends the block."""
        if self._payload:
            payload = bytes(self._payload)
            header = struct.pack("<IIII", _BLOCK_MAGIC, len(payload), zlib.crc32(payload), self._blocks)
            self._file.write(header + payload)
            self._blocks += 1
            self._payload.clear()
            self._base_ns = self._sample_us = 0

    def close(self) -> None:
        """Ends the block and the file; without :meth:`end` before it, the record reads as one of a killed process."""
        if not self._file.closed:
            self.flush()
            self._file.close()
