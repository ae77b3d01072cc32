"""The native functions that a thread of another process is blocked in, without stopping it.

The kernel shows where a blocked thread left for it: its instruction and stack pointer. From there, the unwind tables of
the mapped files (``.eh_frame``) say where each function keeps its return address on the stack, which is read from the
memory of the process. The values of other registers are known where an inner function has saved them; a function whose
frame is found by one that is not ends the way.
"""

from __future__ import annotations

import os
import platform
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

from scalana.live.kernel_files import text_of
from scalana.live.threads.memory import Memory, UnreadableError

_STACK_POINTER = {"x86_64": 7, "aarch64": 31}
"""By its number in unwind tables."""
_MOST = 64
_INTERPRETER = ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrame")
"""What runs functions of Python: what lies outside of it is on the stack of Python."""
_PYTHON = ("python", "libpython", "_core.")
"""Libraries of the interpreter, and of the recorder: what calls the others, and no news."""
_TABLE = 0x3B
"""Offsets of four bytes from the table itself: what all linkers write."""


@dataclass(frozen=True, slots=True)
class NativePlace:
    """A function of a program or library."""

    library: str
    """Its file, without folders."""
    function: str
    """Its name, or an address in the file where it has none."""


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A part of a file in memory."""

    low: int
    high: int
    offset: int
    """Of the first byte in the file."""
    path: str


def native_places(pid: int, tid: int) -> list[NativePlace]:
    """The native functions that a blocked thread is in, up to the innermost function of Python, the outermost first.
    Empty where it runs, or this user may not see it."""
    from scalana.frontend.cpp.binary.symbols import function_at

    words = text_of(f"/proc/{pid}/task/{tid}/syscall").split()
    if len(words) < 3 or platform.machine() not in _STACK_POINTER:
        return []
    found: list[NativePlace] = []
    with suppress(UnreadableError), Memory(pid) as memory:
        for path, address in _addresses(memory, _mapped(pid), int(words[-1], 16), int(words[-2], 16)):
            function = function_at(path, address)
            if function in _INTERPRETER:
                break
            found.append(NativePlace(os.path.basename(path), function or f"{address:#x}"))
    return [place for place in reversed(found) if not place.library.startswith(_PYTHON)]


def _addresses(memory: Memory, mapped: Sequence[_Mapped], pc: int, sp: int) -> Iterator[tuple[str, int]]:
    """File, and address in it, of each function that a thread is in, the innermost first."""
    registers = {_STACK_POINTER[platform.machine()]: sp}
    for depth in range(_MOST):
        at = pc if depth == 0 else pc - 1  # a return address lies behind its call
        tables, address = _tables_at(mapped, at)
        if tables is None:
            return
        yield tables.path, address
        following = tables.left(memory, address, registers)
        if following is None:
            return
        pc, registers = following


def _tables_at(mapped: Sequence[_Mapped], at: int) -> tuple[Tables | None, int]:
    """The tables of the file that is mapped at an address, and what the address is in that file."""
    row = bisect_right(mapped, at, key=lambda one: one.low) - 1
    if row < 0 or at >= mapped[row].high or not mapped[row].path.startswith("/"):
        return None, 0
    try:
        tables = tables_of(mapped[row].path)
    except (OSError, ValueError):
        return None, 0
    return tables, tables.address(at - mapped[row].low + mapped[row].offset)


def _mapped(pid: int) -> list[_Mapped]:
    found = []
    for line in text_of(f"/proc/{pid}/maps").splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6:
            low, _, high = words[0].partition("-")
            found.append(_Mapped(int(low, 16), int(high, 16), int(words[2], 16), words[5]))
    return found


class Tables:
    """The unwind tables of a program or library.

    Args:
        path: its file.

    Raises:
        OSError, ValueError: it cannot be read.
    """

    def __init__(self, path: str) -> None:
        from elftools.common.exceptions import ELFError
        from elftools.dwarf.callframe import CallFrameInfo
        from elftools.dwarf.structs import DWARFStructs
        from elftools.elf.elffile import ELFFile

        self.path = path
        try:
            with open(path, "rb") as file:
                elf = ELFFile(file)
                loads = [segment.header for segment in elf.iter_segments("PT_LOAD")]
                self._loads = [(one.p_offset, one.p_offset + one.p_filesz, one.p_vaddr) for one in loads]
                head, frames = (elf.get_section_by_name(name) for name in (".eh_frame_hdr", ".eh_frame"))
                self._head, self._head_address = (head.data(), head["sh_addr"]) if head and frames else (b"", 0)
                data, self._frames_address = (frames.data(), frames["sh_addr"]) if frames else (b"", 0)
        except ELFError as error:
            raise ValueError(f"{path}: {error}") from error
        structs = DWARFStructs(little_endian=elf.little_endian, dwarf_format=32, address_size=elf.elfclass // 8)
        self._frames = CallFrameInfo(BytesIO(data), len(data), self._frames_address, structs, for_eh_frame=True)

    def address(self, offset: int) -> int:
        """The address that the file itself has for one of its bytes."""
        return next((offset - low + address for low, high, address in self._loads if low <= offset < high), 0)

    def left(self, memory: Memory, address: int, registers: dict[int, int]) -> tuple[int, dict[int, int]] | None:
        """Where the function at an address returns to, and the registers that are known there; None where that is not
        known."""
        rules, to = self._rules(address)
        cfa = rules.get("cfa")
        if cfa is None or cfa.reg not in registers:
            return None
        frame = registers[cfa.reg] + cfa.offset
        saved = {register: frame + rule.arg for register, rule in rules.items() if _is_saved(rule)}
        if to not in saved:
            return None
        known = {register: value for register, value in registers.items() if _is_kept(rules.get(register))}
        known |= {register: memory.word(at) for register, at in saved.items()}
        return known[to], {**known, _STACK_POINTER[platform.machine()]: frame}

    def _rules(self, address: int) -> tuple[dict[Any, Any], int]:
        """How to leave the function at an address, and the register that stands for where it returns to."""
        from elftools.common.exceptions import DWARFError, ELFError

        try:
            at = self._entry(address)
            entry: Any = self._frames._parse_entry_at(at) if at >= 0 else None
            rows = entry.get_decoded().table if entry is not None else []
        except (ELFError, DWARFError, AssertionError, KeyError, ValueError, struct.error):
            return {}, 0
        if entry is None or address >= entry["initial_location"] + entry["address_range"]:
            return {}, 0
        rules = [row for row in rows if row["pc"] <= address]
        return (rules[-1] if rules else {}), int(entry.cie["return_address_register"])

    def _entry(self, address: int) -> int:
        """Where in the section the entry of a function begins; -1 for none."""
        if len(self._head) < 12 or self._head[0] != 1 or self._head[3] != _TABLE:
            return -1
        count = int(struct.unpack_from("=I", self._head, 8)[0])
        starts = memoryview(self._head)[12 : 12 + 8 * count].cast("i")
        row = bisect_right(range(count), address - self._head_address, key=lambda one: starts[2 * one]) - 1
        return self._head_address + starts[2 * row + 1] - self._frames_address if row >= 0 else -1


def _is_saved(rule: Any) -> bool:
    return getattr(rule, "type", "") == "OFFSET"


def _is_kept(rule: Any) -> bool:
    return rule is None or rule.type == "SAME_VALUE"


@lru_cache(maxsize=64)
def tables_of(path: str) -> Tables:
    """The tables of a file, read once."""
    return Tables(path)
