"""The table of dynamic symbols of a shared library: what it has and asks for, and how that is changed in a copy."""

from __future__ import annotations

import struct

from scalana.runtime.typed import Collection, Iterator

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ENTRY = struct.Struct("<QQ")
_DYNAMIC, _SYMBOLS = 6, 11
"""Kinds of sections."""
_NEEDED, _SONAME = 1, 14
"""Kinds of entries in the dynamic section."""
_WEAK = 2
_UNDEFINED = 0


class SharedLibrary:
    """A shared library for a 64-bit little-endian processor.

    Args:
        data: the whole file.

    Raises:
        ValueError: it is none, is cut off, or has no table of sections.
    """

    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a shared library for a 64-bit processor")
        try:
            self._sections = self._read_sections()
            dynamic = next(section for section in self._sections if section[1] == _DYNAMIC)
            symbols = next(section for section in self._sections if section[1] == _SYMBOLS)
        except StopIteration:
            raise ValueError("no dynamic symbols") from None
        except (struct.error, IndexError) as error:
            raise ValueError(f"cut off: {error}") from error
        self._symbols = range(symbols[4], symbols[4] + symbols[5], _SYMBOL.size)
        self._entries = range(dynamic[4], dynamic[4] + dynamic[5], _ENTRY.size)
        self._texts = self._sections[symbols[6]][4]
        if max(self._symbols.stop, self._entries.stop, self._texts) > len(data):
            raise ValueError("cut off")

    @property
    def data(self) -> bytes:
        """The file, with all changes."""
        return bytes(self._data)

    @property
    def soname(self) -> str:
        """The name by which programs ask for it, empty if it has none."""
        return next((self._text(value) for _, kind, value in self._dynamic() if kind == _SONAME), "")

    @property
    def needed(self) -> list[str]:
        """The libraries that it asks for."""
        return [self._text(value) for _, kind, value in self._dynamic() if kind == _NEEDED]

    def defined(self) -> set[str]:
        """Names that it has."""
        return {self._text(name) for _, name, _, section in self._all() if section != _UNDEFINED}

    def undefined(self) -> set[str]:
        """Names that it asks others for."""
        return {self._text(name) for _, name, _, section in self._all() if section == _UNDEFINED}

    def hide(self, names: Collection[str]) -> None:
        """Have the loader not find names that it has."""
        for at, name, info, section in list(self._all()):
            if section != _UNDEFINED and self._text(name) in names:
                _SYMBOL.pack_into(self._data, at, name, info, 0, _UNDEFINED, 0, 0)

    def weaken(self, names: Collection[str]) -> None:
        """Have the loader pass over names that it asks for and that nobody has."""
        for at, name, info, section in list(self._all()):
            if section == _UNDEFINED and self._text(name) in names:
                self._data[at + 4] = _WEAK << 4 | info & 15

    def ask_for(self, library: str, instead_of: str) -> None:
        """Ask for another library.

        Raises:
            ValueError: its name is longer than the one that it replaces, or that one is not asked for.
        """
        new, old = library.encode(), instead_of.encode()
        place = next(
            (value for _, kind, value in self._dynamic() if kind == _NEEDED and self._text(value) == instead_of), None
        )
        if place is None or len(new) > len(old):
            raise ValueError(f"cannot ask for {library} instead of {instead_of}")
        self._data[self._texts + place : self._texts + place + len(old)] = new.ljust(len(old), b"\0")

    def _read_sections(self) -> list[tuple[int, ...]]:
        (start,) = struct.unpack_from("<Q", self._data, 40)
        size, count = struct.unpack_from("<HH", self._data, 58)
        if size != _SECTION.size:
            return []
        return [_SECTION.unpack_from(self._data, start + number * size) for number in range(count)]

    def _all(self) -> Iterator[tuple[int, int, int, int]]:
        """Where each symbol stands, where its name does, its kind, and its section."""
        for at in self._symbols:
            name, info, _, section, _, _ = _SYMBOL.unpack_from(self._data, at)
            yield at, name, info, section

    def _dynamic(self) -> Iterator[tuple[int, int, int]]:
        for at in self._entries:
            yield at, *_ENTRY.unpack_from(self._data, at)

    def _text(self, place: int) -> str:
        start = self._texts + place
        return self._data[start : self._data.index(b"\0", start)].decode(errors="replace")
