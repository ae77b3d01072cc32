"""The last part of a record that is still written: read by increments, and kept as a record of its own.

A block needs nothing of other blocks but the definitions before it. Those of all blocks are kept, and the rest of the
last blocks alone: what is kept, and what an update costs, do not grow with the length of the record. Sums since the
start are left out, as they speak of more than what is kept.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from typing import NamedTuple

_FILE_HEADER = 16
_HEADER = struct.Struct("<IIII")
_MAGIC = 0x4B4C4253
_MAGIC_BYTES = struct.pack("<I", _MAGIC)
_AT_ONCE = 4 << 20
"""Bytes that are read at a time."""
_META = 1
PROGRESS = "progress_ns"
"""What is said of the last part of a record: when its program came further last, which may have been before that."""


class _Block(NamedTuple):
    """What a block says of its own time."""

    payload: bytes
    first_ns: int
    last_ns: int


class RecordTail:
    """The last part of one record file that may still grow.

    Args:
        file: the record; it need not be there yet.
        keeps_progress: whether what was recorded when its program came further last is kept for as long as it is that.
    """

    def __init__(self, file: str | os.PathLike[str], keeps_progress: bool = False) -> None:
        self.file = os.fspath(file)
        self._keeps_progress = keeps_progress
        self.ended = False
        """Whether the record has its end."""
        self.last_ns = 0
        """Latest moment in it on CLOCK_MONOTONIC, 0 if there is none yet."""
        self.begin_ns = 0
        """Earliest moment in it, also of what is not kept any more; 0 if there is none yet."""
        self.progress_ns = 0
        """Latest moment at which its program came further: a call or a span ended; 0 if that was never seen."""
        self._offset = 0
        self._header = b""
        self._definitions: list[bytes] = []
        self._blocks: deque[_Block] = deque()
        self._older: list[_Block] = []
        """Those before them that are kept too."""
        self._pending = b""

    def update(self, keep_ns: int) -> bool:
        """Read what was appended since the last time; whether there was any whole block. Of what blocks say of their
        own time, the last ``keep_ns`` are kept.

        Raises:
            OSError: it cannot be read.
        """
        before = self.last_ns, self.ended
        try:
            with open(self.file, "rb") as file:
                file.seek(self._offset)
                while data := file.read(_AT_ONCE):
                    self._offset += len(data)
                    self._take(self._pending + data)
                    self.trim(self.last_ns - keep_ns)
        except FileNotFoundError:
            return False
        return before != (self.last_ns, self.ended)

    def trim(self, before_ns: int, around: tuple[int, int] = (0, 0)) -> None:
        """Forget what blocks say that end before a moment; where progress is kept, not those in which the program came
        further last, nor those of the time ``around`` the last progress of the whole run."""
        while self._blocks and self._blocks[0].last_ns < before_ns:
            self._older.append(self._blocks.popleft())
        kept = [(self.progress_ns, self.progress_ns), around] if self._keeps_progress else []
        self._older = [one for one in self._older if any(_overlaps(one, *some) for some in kept)]

    @property
    def first_ns(self) -> int:
        """Where what is kept begins on CLOCK_MONOTONIC, 0 if nothing is."""
        return next((block.first_ns for block in (*self._older, *self._blocks) if block.first_ns), 0)

    def content(self, start_ns: int) -> bytes:
        """A record file of what is kept, which begins at a moment; empty as long as the file has no header."""
        if not self._header:
            return b""
        if len(self._definitions) > 1:
            self._definitions = [b"".join(self._definitions)]
        said = _meta("start_ns", start_ns) + _meta(PROGRESS, self.progress_ns)
        payloads = [*self._definitions, said, *(block.payload for block in (*self._older, *self._blocks))]
        return self._header + b"".join(_framed(number, payload) for number, payload in enumerate(payloads))

    def _take(self, data: bytes) -> None:
        """Take whole blocks from the front of ``data``; what is left waits for more."""
        at = 0
        if not self._header:
            if len(data) < _FILE_HEADER:
                self._pending = data
                return
            self._header, at = data[:_FILE_HEADER], _FILE_HEADER
        view = memoryview(data)
        while len(data) - at >= _HEADER.size:
            end = _end_of_block(data, at)
            if end is None:  # damaged, or not all there yet
                following = _next_block(data, at + 1)
                if following is None:
                    break
                at = following
                continue
            self._keep(view[at + _HEADER.size : end])
            at = end
        self._pending = data[at:]

    def _keep(self, payload: memoryview) -> None:
        from scalana.runtime import _core  # only readers need the extension

        definitions, rest, first_ns, last_ns, progress_ns, ended = _core.split(payload)
        if definitions:
            self._definitions.append(definitions)
        if rest:
            self._blocks.append(_Block(rest, first_ns, last_ns))
        self.begin_ns = self.begin_ns or first_ns
        self.last_ns = max(self.last_ns, last_ns)
        self.progress_ns = max(self.progress_ns, progress_ns)
        self.ended = self.ended or ended


def _overlaps(block: _Block, first_ns: int, last_ns: int) -> bool:
    return block.first_ns <= last_ns and block.last_ns >= first_ns


def _end_of_block(data: bytes, at: int) -> int | None:
    """Where a block ends; None where there is none that is whole."""
    magic, size, checksum, _ = _HEADER.unpack_from(data, at)
    end = int(at + _HEADER.size + size)
    whole = magic == _MAGIC and end <= len(data) and zlib.crc32(memoryview(data)[at + _HEADER.size : end]) == checksum
    return end if whole else None


def _next_block(data: bytes, at: int) -> int | None:
    """Where the next whole block begins from a place on; None where there is none."""
    while (at := data.find(_MAGIC_BYTES, at)) >= 0 and len(data) - at >= _HEADER.size:
        if _end_of_block(data, at) is not None:
            return at
        at += 1
    return None


def _meta(key: str, value: int) -> bytes:
    texts = (key.encode(), b"%d" % value)
    return bytes((_META,)) + b"".join(bytes((len(text),)) + text for text in texts)


def _framed(number: int, payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload), number) + payload
