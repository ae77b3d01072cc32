"""Python objects of another process: their types, attributes and texts, by where these lie in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scalana.live.threads.memory import Memory, UnreadableError

_TYPE, _SIZE = 8, 16
_TYPE_NAME, _TYPE_BASIC_SIZE, _TYPE_FLAGS, _TYPE_DICT_OFFSET = 24, 32, 168, 288
_HEAP_TYPE, _MANAGED_DICT = 1 << 9, 1 << 4
_TEXT_STATE = 32
_ITEMS, _BYTES = 24, 32
"""Of a tuple, and of ``bytes``."""
_CELL_VALUE, _MODULE_DICT = 16, 16
_FUNCTION, _SELF = 16, 24
"""Of bound methods, of C and of Python: what is called, and of which object."""
_FUNCTION_NAME = 32
_DICT_KEYS, _DICT_VALUES = 32, 40
_KEYS_INDEX_BYTES, _KEYS_KIND, _KEYS_COUNT, _KEYS_INDEX = 9, 10, 24, 32
_MOST_KEYS = 1 << 14
_MOST_TEXT = 4096

Layout = Mapping[str, int]
"""What differs between versions of the interpreter, as its record says."""


class Objects:
    """Reads objects. All addresses may be of something else by now: what is read is compared with types and bounds.

    Args:
        memory: of the process.
        layout: of its interpreter.
    """

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self.memory = memory
        self.layout = layout

    def type_name(self, address: int) -> str:
        """The name of the type of an object, without its module for types of Python; empty for no object."""
        try:
            return self.memory.text(self.memory.word(self.memory.word(address + _TYPE) + _TYPE_NAME))
        except UnreadableError:
            return ""

    def text(self, address: int) -> str:
        """A ``str``; empty for anything else."""
        if self.type_name(address) != "str":
            return ""
        size = min(self.memory.word(address + _SIZE), _MOST_TEXT)
        state = self.memory.number(address + _TEXT_STATE)
        kind, is_ascii = state >> 2 & 7, state >> 6 & 1
        codec = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}.get(kind)
        if codec is None:
            return ""
        data = address + self.layout["text_ascii" if is_ascii else "text_other"]
        return self.memory.bytes(data, size * kind).decode(codec, "replace")

    def data(self, address: int) -> bytes:
        """``bytes``; empty for anything else."""
        if self.type_name(address) != "bytes":
            return b""
        return self.memory.bytes(address + _BYTES, min(self.memory.word(address + _SIZE), 1 << 20))

    def items(self, address: int) -> tuple[int, ...]:
        """What is in a tuple; nothing for anything else."""
        if self.type_name(address) != "tuple":
            return ()
        return self.memory.words(address + _ITEMS, min(self.memory.word(address + _SIZE), _MOST_KEYS))

    def bound(self, address: int) -> tuple[str, int]:
        """Name and object of a bound method; 0 for anything else."""
        kind = self.type_name(address)
        if kind not in ("builtin_function_or_method", "method"):
            return "", 0
        function, of = self.memory.words(address + _FUNCTION, 2)
        if kind == "method":
            return self.text(self.memory.word(function + _FUNCTION_NAME)), of
        return self.memory.text(self.memory.word(function)), of

    def in_cell(self, address: int) -> int:
        """What is in a cell; what is no cell, itself."""
        return self.memory.word(address + _CELL_VALUE) if self.type_name(address) == "cell" else address

    def item(self, address: int, name: str) -> int:
        """What a ``dict`` has for a name; 0 for nothing."""
        keys, values = self.memory.words(address + _DICT_KEYS, 2)
        if values:
            return self._split(keys, values + (8 if self.layout["minor"] >= 13 else 0), name)
        return next((value for key, value in self._entries(keys) if value and self.text(key) == name), 0)

    def attribute(self, address: int, name: str) -> int:
        """What an object, or a module, has under a name of its own, without that of its type; 0 for nothing."""
        if self.type_name(address) == "module":
            return self.item(self.memory.word(address + _MODULE_DICT), name)
        kind = self.memory.word(address + _TYPE)
        flags = self.memory.word(kind + _TYPE_FLAGS)
        if not flags & _HEAP_TYPE:
            return 0
        if not flags & _MANAGED_DICT:
            offset = self.memory.word(kind + _TYPE_DICT_OFFSET)
            held = self.memory.word(address + offset) if 0 < offset < _MOST_TEXT else 0
            return self.item(held, name) if held else 0
        values, held = self._values(address, kind)
        if values:
            return self._split(self.memory.word(kind + self.layout["type_keys"]), values, name)
        return self.item(held, name) if held else 0

    def _values(self, address: int, kind: int) -> tuple[int, int]:
        """Where an object has its values, in the order of the keys of its type, or else its ``dict``."""
        first, held = self.memory.words(address - 32, 2)
        if self.layout["minor"] == 11:
            return first, held
        if self.layout["minor"] == 12:
            return (held + 1, 0) if held & 1 else (0, held)
        return (0, held) if held else (address + self.memory.word(kind + _TYPE_BASIC_SIZE) + 8, 0)

    def _split(self, keys: int, values: int, name: str) -> int:
        for row, (key, _) in enumerate(self._entries(keys) if keys else ()):
            if self.text(key) == name:
                return self.memory.word(values + 8 * row)
        return 0

    def _entries(self, keys: int) -> Iterator[tuple[int, int]]:
        """Key and value of each entry of a table of keys."""
        index_bytes, kind = self.memory.bytes(keys + _KEYS_INDEX_BYTES, 2)
        count = self.memory.word(keys + _KEYS_COUNT)
        if count > _MOST_KEYS or index_bytes > 32:
            return
        width = 2 if kind else 3  # a hash comes first where keys are not all texts
        words = self.memory.words(keys + _KEYS_INDEX + (1 << index_bytes), width * count)
        for row in range(width - 2, len(words), width):
            yield words[row], words[row + 1]
