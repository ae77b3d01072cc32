"""Writes records in plain Python, for what does not come from a running job: importers, generators and tests.

The format is described in :mod:`.format`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType

from .format import (
    CODE,
    DONE,
    END,
    EVENT,
    EVENT_BLOCKING,
    GROUP,
    INTERVAL,
    META,
    NOTE,
    OPEN,
    PATH,
    SAMPLE,
    STATE_RUNNING,
    STRIDED_GROUP,
    THREAD,
    THREAD_MAIN,
    THREAD_PYTHON,
    TIME,
    TOTAL,
)
from .line_tables import NO_LINE_TABLE

__all__ = ["RecordWriter", "collective_key", "message_key"]

_FILE_MAGIC = b"SCALANA1"
_VERSION = 1
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
