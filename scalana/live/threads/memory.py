"""The memory of another process of this host, as the kernel shows it: nothing is sent to the process or stops it."""

from __future__ import annotations

import os
import struct

_TEXT = 64
_PAGE = 4096


class UnreadableError(Exception):
    """What is asked for is not there, or not for this user."""


class Memory:
    """Reads the memory of a process. Use as a context manager.

    Raises:
        UnreadableError: another user may read it, or only those that may trace the process.
    """

    def __init__(self, pid: int) -> None:
        try:
            self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UnreadableError(str(error)) from error

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def bytes(self, address: int, size: int) -> bytes:
        """What is in a range.

        Raises:
            UnreadableError: a part of it is not there.
        """
        try:
            found = os.pread(self._file, size, address)
        except (OSError, OverflowError, ValueError) as error:
            raise UnreadableError(str(error)) from error
        if len(found) != size:
            raise UnreadableError("cut off")
        return found

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Pointers that follow each other."""
        return struct.unpack(f"={count}Q", self.bytes(address, 8 * count))

    def word(self, address: int) -> int:
        """One pointer."""
        return self.words(address, 1)[0]

    def number(self, address: int) -> int:
        """An ``int`` of C."""
        return int(struct.unpack("=i", self.bytes(address, 4))[0])

    def text(self, address: int) -> str:
        """A short string of C, cut where a page ends."""
        size = min(_TEXT, _PAGE - address % _PAGE)
        return self.bytes(address, size).partition(b"\0")[0].decode("utf-8", "replace")
