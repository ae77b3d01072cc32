"""The threads of an interpreter in another process, and the frames that they are in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalana.live.threads.memory import UnreadableError
from scalana.live.threads.objects import Layout, Objects
from scalana.runtime.record.line_tables import position

MOST_THREADS = 512
"""Those of a process that are read."""
_MOST_FRAMES = 256
_DEEPEST = 64
_Code = tuple[str, str, bytes, int]
"""File, name, table of lines and first line."""


@dataclass(frozen=True, slots=True)
class PythonFrame:
    """A frame of a function of Python."""

    file: str
    line: int
    function: str
    address: int
    code: int
    instruction: int
    """Offset in bytes."""


@dataclass(frozen=True, slots=True)
class PythonThread:
    """A thread that runs Python code."""

    tid: int
    ident: int
    """By which Python knows it."""
    frames: tuple[PythonFrame, ...]
    """Innermost first."""


def layout_of(text: str) -> Layout:
    """What a record says of its interpreter; empty where it says nothing.

    >>> layout_of("minor=11 interpreter=4096")
    {'minor': 11, 'interpreter': 4096}
    """
    pairs = (pair.partition("=") for pair in text.split())
    return {name: int(number) for name, _, number in pairs if number.isdecimal()}


def threads_of(objects: Objects) -> list[PythonThread]:
    """All threads of the main interpreter. Those whose frames change meanwhile have fewer, or none."""
    memory, layout = objects.memory, objects.layout
    found: list[PythonThread] = []
    codes: dict[int, _Code] = {}
    at = memory.word(layout["interpreter"] + layout["interp_head"])
    while at and len(found) < MOST_THREADS:
        frames: list[PythonFrame] = []
        try:
            frames.extend(_frames(objects, at, codes))
        except UnreadableError:
            pass
        tid, ident = (memory.word(at + layout[name]) for name in ("thread_native_id", "thread_ident"))
        found.append(PythonThread(tid, ident, tuple(frames)))
        at = memory.word(at + layout["thread_next"])
    return found


def _frames(objects: Objects, thread: int, codes: dict[int, _Code]) -> Iterator[PythonFrame]:
    memory, layout = objects.memory, objects.layout
    at = memory.word(thread + layout["thread_frame"])
    if at and layout["cframe_frame"]:
        at = memory.word(at + layout["cframe_frame"] - 1)
    for _ in range(_MOST_FRAMES):
        if not at:
            return
        owner = memory.bytes(at + layout["frame_owner"], 1)[0]
        if owner < layout["owner_interpreter"]:
            code = memory.word(at + layout["frame_code"])
            instruction = memory.word(at + layout["frame_instruction"]) - code - layout["code_body"]
            first = 2 * memory.number(code + layout["code_first_traceable"])
            if instruction >= first or owner == layout["owner_generator"]:
                if code not in codes:
                    codes[code] = _code(objects, code)
                file, name, lines, line = codes[code]
                line = position(lines, layout["minor"], line, max(instruction, 0)).line
                yield PythonFrame(file, line, name, at, code, max(instruction, 0))
        at = memory.word(at + layout["frame_previous"])


def _code(objects: Objects, code: int) -> _Code:
    memory, layout = objects.memory, objects.layout
    if objects.type_name(code) != "code":
        raise UnreadableError("no code object")
    file, name = (objects.text(memory.word(code + layout[field])) for field in ("code_file", "code_name"))
    lines = objects.data(memory.word(code + layout["code_lines"]))
    return file, name, lines, memory.number(code + layout["code_first_line"])


def local(objects: Objects, frame: PythonFrame, name: str) -> int:
    """What a variable of a function is, its own or one of a function around it; 0 where it has none of that name."""
    names = objects.items(objects.memory.word(frame.code + objects.layout["code_local_names"]))
    for row, text in enumerate(names):
        if objects.text(text) == name:
            return objects.in_cell(objects.memory.word(frame.address + objects.layout["frame_slots"] + 8 * row))
    return 0


def named(objects: Objects, frame: PythonFrame, name: str) -> int:
    """What a name stands for in a function: a variable of it, or of its module."""
    found = local(objects, frame, name)
    return found or objects.item(objects.memory.word(frame.address + objects.layout["frame_globals"]), name)


def entered(objects: Objects, frame: PythonFrame) -> list[int]:
    """The objects of the ``with`` blocks that a frame is inside of: those whose ``__exit__`` its stack of values keeps
    for the end of the block. A block that is still being entered is not among them."""
    memory, layout = objects.memory, objects.layout
    depth = _kept(objects.data(memory.word(frame.code + layout["code_exceptions"])), frame.instruction)
    slots = memory.number(frame.code + layout["code_locals"])
    words = memory.words(frame.address + layout["frame_slots"] + 8 * slots, min(depth, _DEEPEST))
    bound = [objects.bound(word) for word in words]
    return [of for name, of in bound if name == "__exit__"]


def _kept(table: bytes, instruction: int) -> int:
    """How many values a frame keeps at an instruction whatever is raised there, by the table of its exceptions
    (``Objects/exception_handling_notes.txt`` of CPython's sources)."""
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    for start, length, _, depth in zip(*[iter(numbers)] * 4, strict=False):
        if 2 * start <= instruction < 2 * (start + length):
            return depth >> 1
    return 0
