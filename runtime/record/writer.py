"""Writes records in plain Python, for what does not come from a running job: importers, generators and tests.

The format is described in :mod:`.format`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from .format import (
    ATTRIBUTE_NUMBER,
    ATTRIBUTE_REAL,
    ATTRIBUTE_TEXT,
    CODE,
    DONE,
    END,
    EVENT,
    EVENT_BLOCKING,
    EVENT_CPU_UNKNOWN,
    GROUP,
    LANE,
    LANE_THREAD,
    META,
    NOTE,
    OPEN,
    PATH,
    SAMPLE,
    SPAN,
    SPAN_TOTAL,
    STATE_CPU_UNKNOWN,
    STATE_RUNNING,
    STRIDED_GROUP,
    STRING,
    THREAD,
    THREAD_MAIN,
    THREAD_PYTHON,
    TIME,
    TOTAL,
    UNWRITTEN,
    UNWRITTEN_CALLS,
)
from .line_tables import NO_LINE_TABLE

__all__ = ["RecordWriter", "collective_key", "message_key", "step_key"]

_FILE_MAGIC = b"SCALANA1"
_VERSION = 2
_OLDEST_READER = 2
_BLOCK_MAGIC = 0x4B4C4253


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


def _mix(value: int, word: int) -> int:
    value = (value ^ word & 0xFFFFFFFFFFFFFFFF) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return value ^ value >> 32


def collective_key(name: str, seq: int) -> int:
    """Thinning hash of a collective: its communicator's name and its number there."""
    return _finish(_mix(_fnv(name.encode("utf-8", "surrogateescape")), seq))


def message_key(source: int, destination: int, tag: int, seq: int) -> int:
    """Thinning hash of a message: world ranks, tag, and its number in this channel."""
    value = _fnv(b"")
    for word in (source, destination, tag, seq):
        value = _mix(value, word)
    return _finish(value)


def step_key(number: int) -> int:
    """Thinning hash of a training step, by its number."""
    return _finish(_mix(_fnv(b""), number))


def _strides(ranks: list[int]) -> list[tuple[int, int, int]]:
    """Ranks as stretches of equal steps: first rank, step, length."""
    strides: list[tuple[int, int, int]] = []
    for rank in ranks:
        if strides:
            first, step, length = strides[-1]
            if length == 1 or rank == first + step * length:
                strides[-1] = (first, rank - first if length == 1 else step, length + 1)
                continue
        strides.append((rank, 0, 1))
    return strides


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
    _strings: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _lanes: dict[tuple[int, int, str], int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._file = open(self.path, "xb")  # noqa: SIM115  closed by close()
        self._file.write(_FILE_MAGIC + struct.pack("<II", _VERSION, _OLDEST_READER))

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

    def _put_sized(self, kind: int, *fields: bytes) -> None:
        body = b"".join(fields)
        self._put(kind, _varint(len(body)), body)

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
        """With a negative ``cpu_us`` neither the CPU time nor the wait for a core is known."""
        if cpu_us < 0:
            cpu_us, core_wait_us, state = 0, 0, state + STATE_CPU_UNKNOWN
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
        """Whichever way of naming the members is shorter: most groups are every nth of a range of ranks."""
        members = list(ranks)
        strides = _strides(members)
        kind, count = GROUP, len(members)
        fields = [_varint(rank) for rank in members]
        if 3 * len(strides) < len(members):
            kind, count = STRIDED_GROUP, len(strides)
            fields = [
                field for first, step, number in strides for field in (_varint(first), _signed(step), _varint(number))
            ]
        self._put(kind, _varint(id), _text(name), _varint(my_rank), _varint(count), *fields)

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
        """With a negative ``cpu_ns`` no CPU time is known."""
        if cpu_ns < 0:
            cpu_enter_ns, cpu_ns, flags = 0, 0, flags | EVENT_CPU_UNKNOWN
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

    def unwritten(self, start_ns: int, duration_ns: int, *, thread: int = 0, cpu_ns: int = 0) -> None:
        """How long the thread was in calls that are not written, up to its next event."""
        start = self._delta(start_ns)
        numbers = _varint(duration_ns), _varint(cpu_ns), _varint(0)
        self._put(UNWRITTEN, _varint(UNWRITTEN_CALLS), _varint(thread), _text(""), start, *numbers)

    def string(self, text: str) -> int:
        """Id of a name, key or text of spans; spans give theirs by themselves."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self._put_sized(STRING, _varint(self._strings[text]), _text(text))
        return self._strings[text]

    def lane(self, kind: int = LANE_THREAD, name: str = "", thread: int = -1) -> int:
        """Id of a lane of a kind, ``LANE_*``; ``thread`` is whose time it is, -1 for none."""
        key = kind, thread, name
        if key not in self._lanes:
            self._lanes[key] = len(self._lanes) + 1
            self._put_sized(LANE, _varint(self._lanes[key]), _varint(kind), _varint(thread + 1), _text(name))
        return self._lanes[key]

    def span(
        self,
        type: int,
        name: str,
        start_ns: int,
        duration_ns: int,
        *,
        lane: int = 0,
        cpu_ns: int = -1,
        path: int = 0,
        event: int = 0,
        step: int = -1,
        attributes: Mapping[str, int | float | str] | None = None,
    ) -> None:
        """A span of a type, ``SPAN_TYPE[...]``; without a ``lane`` it is of thread 0.

        A negative ``cpu_ns`` is an unknown CPU time, a negative ``step`` outside of any.
        """
        of = self.lane(LANE_THREAD, thread=0) if lane == 0 else lane
        named = _varint(self.string(name))
        values = [self._attribute(key, value) for key, value in (attributes or {}).items()]
        start = self._delta(start_ns)
        self._put_sized(
            SPAN,
            _varint(type),
            _varint(of),
            named,
            start,
            *map(_varint, (duration_ns, max(cpu_ns, -1) + 1, path, event, max(step, -1) + 1, len(values))),
            *values,
        )

    def _attribute(self, key: str, value: int | float | str) -> bytes:
        if isinstance(value, str):
            tag, encoded = ATTRIBUTE_TEXT, _varint(self.string(value))
        elif isinstance(value, float):
            tag, encoded = ATTRIBUTE_REAL, struct.pack("<d", value)
        else:
            tag, encoded = ATTRIBUTE_NUMBER, _signed(value)
        return _varint(self.string(key)) + _varint(tag) + encoded

    def span_total(
        self, type: int, name: str, spans: int, wall_ns: int, cpu_ns: int = 0, *, lane: int = 0, path: int = 0
    ) -> None:
        """What all spans of a type, lane, name and path amount to; of a record that does not hold all of them."""
        of, named = self.lane(LANE_THREAD, thread=0) if lane == 0 else lane, self.string(name)
        self._put_sized(SPAN_TOTAL, *map(_varint, (type, of, named, path, spans, wall_ns, cpu_ns)))

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
