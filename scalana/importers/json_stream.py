"""The events of a Chrome trace, some thousand at a time: a trace may be larger than memory.

The file is cut into pieces between two events, and each piece is read by :mod:`json` as a list. Where a piece is no
list (a cut inside of a text, damage), its events are read one by one.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from scalana.importers.errors import TraceError

PIECE_BYTES = 4 << 20
EVENTS = "traceEvents"
_CUT = re.compile(r"\}\s*,\s*(?=\{)")
_SPACE = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder(strict=False)
_LONGEST = 64 << 20
"""Bytes of one value at most; what goes on for longer is damage."""


class EventStream:
    """A trace that is being read.

    Args:
        file: with compression taken off.
        name: as it is told to people.

    Attributes:
        header: what stands beside the events, complete when all events were read.
        damage: why not all of the file was read; empty if it was.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.header: dict[str, Any] = {}
        self.damage = ""
        self._name = name
        self._file = file
        self._text = ""
        self._rest = b""
        self._ended = False

    def pieces(self) -> Iterator[list[Any]]:
        """The events, in the order of the file, some thousand at a time.

        Raises:
            TraceError: this is no trace.
        """
        self._more()
        self._skip()
        if self._text[:1] == "[":
            self._text = self._text[1:]
            yield from self._events()
            return
        if self._text[:1] != "{":
            raise TraceError(f"{self._name}: not a trace: it begins with neither {{ nor [")
        self._text = self._text[1:]
        found = False
        while self._skip() and self._text[:1] == '"':
            key = self._value()
            self._skip()
            if key is None or self._text[:1] != ":":
                break
            self._text = self._text[1:]
            self._skip()
            if key == EVENTS and self._text[:1] == "[":
                self._text, found = self._text[1:], True
                yield from self._events()
            else:
                self.header[key] = self._value()
        if not found and not self.damage:
            raise TraceError(f"{self._name}: not a trace: it has no list {EVENTS}")
        if self._text[:1] != "}" and not self.damage:
            self.damage = "the file ends in the middle"

    def _events(self) -> Iterator[list[Any]]:
        """Events up to the end of their list, which is taken away."""
        while self._skip() and self._text[:1] != "]":
            last = None
            if len(self._text) < PIECE_BYTES // 2:
                self._more()
            cut = self._text.rfind("}", 0, len(self._text) - 1)
            for match in _CUT.finditer(self._text, max(0, cut - 20_000)):
                last = match
            if last is not None:
                try:
                    events = json.loads(f"[{self._text[: last.start() + 1]}]", strict=False)
                except ValueError:
                    events = None
                if events is not None:
                    self._text = self._text[last.end() :]
                    yield events
                    continue
            few: list[Any] = []
            while self._skip() and self._text[:1] != "]" and len(few) < 1000:
                event = self._value()
                if self.damage:
                    break
                few.append(event)
            yield few
            if self.damage:
                self._text = ""
                return
        self._text = self._text[1:]

    def _value(self) -> Any:
        """The value at the beginning of the text, which is taken away; None and :attr:`damage` if there is none."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text)
            except ValueError as error:
                if self._ended or len(self._text) > _LONGEST:
                    self.damage = self.damage or (
                        "the file ends in the middle" if self._ended and error.args else "an event cannot be read"
                    )
                    return None
                self._more()
                continue
            if end == len(self._text) and not self._ended:  # a number may go on
                self._more()
                continue
            self._text = self._text[end:]
            return value

    def _skip(self) -> bool:
        """Take away space and commas; whether anything is left."""
        while True:
            match = _SPACE.match(self._text)
            self._text = self._text[match.end() :] if match and match.end() else self._text
            if self._text or self._ended:
                return bool(self._text)
            self._more()

    def _more(self) -> None:
        if self._ended:
            return
        parts: list[bytes] = []
        size = 0
        # In small parts, as the one in which a file is torn is lost.
        read = getattr(self._file, "read1", self._file.read)
        try:
            while size < PIECE_BYTES and (part := read(PIECE_BYTES)):
                parts.append(part)
                size += len(part)
        except (OSError, EOFError, zlib.error) as error:
            self.damage = f"cannot be read to its end: {error}"
            self._ended = True
        data = b"".join(parts)
        self._ended |= not data
        # What a cut left of a character comes with the next piece.
        data = self._rest + data
        whole = len(data)
        while not self._ended and whole and whole > len(data) - 4 and data[whole - 1] & 0xC0 == 0x80:
            whole -= 1
        if not self._ended and whole and data[whole - 1] >= 0xC0:
            whole -= 1
        self._text += data[:whole].decode("utf-8", "replace")
        self._rest = data[whole:]


def read(file: IO[bytes], name: str, take: Callable[[list[Any]], None]) -> EventStream:
    """Hand all events of a trace to ``take``, and return what else stands in it.

    Raises:
        TraceError: it is no trace.
    """
    stream = EventStream(file, name)
    for piece in stream.pieces():
        take(piece)
    return stream
