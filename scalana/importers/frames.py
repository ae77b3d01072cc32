"""Events of a host thread as frames of a call path.

Where a trace has Python's functions, these are the program, and operators inside of them are what its libraries do.
Where it has none, annotations, modules and operators stand for the program.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.attribution.callpaths import is_wrapper
from scalana.importers.trace import Kind
from scalana.runtime.record.writer import RecordWriter

OPERATORS, ANNOTATIONS = "operators", "annotations"
"""In place of a file, where a trace does not say what of the program an event belongs to."""
OUTSIDE = "(outside of operators)"
_PYTHON = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)
_BUILT_IN = re.compile(r"<built-in (?:method|function) (\S+)")
_STEP = re.compile(r"ProfilerStep#?\s*(\d+)")
_LIBRARIES = frozenset(
    "torch torchvision torchaudio torchdata torchao torchtune torchtitan numpy scipy pandas transformers accelerate "
    "datasets diffusers peft trl deepspeed megatron lightning pytorch_lightning fsspec triton tqdm apex "
    "flash_attn xformers fairscale wandb PIL site-packages dist-packages".split()
)
"""Packages whose files profilers name without the folder in which they are installed."""
_STANDARD = frozenset(sys.stdlib_module_names)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a call path."""

    file: str
    name: str
    line: int = 0
    """The line that runs, as far as it is known, else the first one."""
    first_line: int = 0
    """Of the function."""


def step_number(name: str) -> int | None:
    """The number of the step that an annotation stands for, None if it is none."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def is_library(file: str, folder: str = "") -> bool:
    """Whether a file that Python ran is not the user's own, by its name alone; one that has the name of a module of
    Python's is the user's if it lies in ``folder``."""
    parts = file.replace("\\", "/").split("/")
    if file.startswith("<") or "site-packages" in parts or "dist-packages" in parts or is_wrapper(file):
        return True
    if os.path.isabs(file):
        return re.search(r"/lib(?:64)?/python\d", file.replace("\\", "/")) is not None
    top = parts[0]
    return top in _LIBRARIES or (
        top.removesuffix(".py") in _STANDARD and not os.path.exists(os.path.join(folder, file))
    )


def frame_of(kind: int, name: str, has_python: bool, folder: str) -> Frame | None:
    """What an event adds to a call path; None for what only says that a call was made.

    Args:
        kind: a :class:`~scalana.importers.trace.Kind`.
        name: of the event.
        has_python: whether the trace has functions of Python.
        folder: where the program's sources lie.
    """
    if kind == Kind.PYTHON:
        return _python_frame(name, folder)
    if kind == Kind.ANNOTATION and step_number(name) is not None:
        return None
    if kind == Kind.RUNTIME:
        return Frame("<runtime>", name)
    inside = (lambda text: f"<{text}>") if has_python else (lambda text: text)
    if kind == Kind.ANNOTATION:
        return Frame(inside(ANNOTATIONS), name)
    if name.startswith("nn.Module: "):
        return Frame(inside("modules"), name.removeprefix("nn.Module: "))
    return Frame(inside(OPERATORS), name)


def _python_frame(name: str, folder: str) -> Frame:
    match = _PYTHON.fullmatch(name)
    if match is None:
        built_in = _BUILT_IN.match(name)
        return Frame("<built-in>", built_in[1] if built_in else name.removeprefix("nn.Module: "))
    line = int(match[2])
    return Frame(in_folder(match[1], folder), match[3], line, line)


def in_folder(file: str, folder: str) -> str:
    """The name of a source file: the user's own as it is found, a library's so that it is known for one."""
    if is_library(file, folder):
        return file if file.startswith("<") else f"<site-packages>/{file.lstrip('/')}"
    whole = os.path.join(folder, file)
    return whole if os.path.exists(whole) else file


@dataclass(slots=True)
class PathTable:
    """The call paths of one record, each once."""

    writer: RecordWriter
    _codes: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _paths: dict[tuple[int, Frame], int] = field(default_factory=dict)

    def below(self, parent: int, frame: Frame) -> int:
        """The id of a path with one more frame inside."""
        key = parent, frame
        path = self._paths.get(key)
        if path is None:
            which = frame.file, frame.name, frame.first_line
            code = self._codes.get(which)
            if code is None:
                code = self._codes[which] = len(self._codes) + 1
                self.writer.code(code, frame.file, frame.name, frame.first_line)
            path = self._paths[key] = len(self._paths) + 1
            self.writer.call_path(path, parent, code, frame.line)
        return path


@dataclass(slots=True)
class EventPaths:
    """Call paths of the events of a trace, made as they are asked for."""

    table: PathTable
    frame: Callable[[int], tuple[bool, list[Frame]]]
    """What an event adds, and whether that is a whole path from the root."""
    around: IntArray
    """The event around each, -1 for none ``[events]``."""
    call_line: Callable[[Frame, int], int]
    """The line in which a function, by its frame, calls what an event is; 0 where it is not known."""
    _known: dict[int, tuple[int, Frame | None, int]] = field(default_factory=dict)
    """Of events: the path without their last frame, that frame, and the path."""

    def of(self, event: int) -> int:
        """The call path inside of an event; that of -1 is empty."""
        known = self._known
        chain = []
        while event >= 0 and event not in known:
            chain.append(event)
            event = int(self.around[event])
        entry = known[event] if event >= 0 else (0, None, 0)
        for inner in reversed(chain):
            whole, frames = self.frame(inner)
            if frames:
                above, path = 0, 0 if whole else self._site(entry, inner)
                for frame in frames:
                    above, path = path, self.table.below(path, frame)
                entry = above, frames[-1], path
            known[inner] = entry
        return entry[2]

    def _site(self, caller: tuple[int, Frame | None, int], event: int) -> int:
        """The path to the call that an event is."""
        above, frame, path = caller
        if frame is None or frame.line == 0:
            return path
        line = self.call_line(frame, event)
        return self.table.below(above, replace(frame, line=line)) if line else path


def stack_frames(text: str, folder: str) -> list[Frame]:
    """The frames of a ``Call stack`` as older traces have it with every operator, outermost first."""
    # Here the lines are those that run, and those of the functions are not known.
    return [_python_frame(part.strip(), folder) for part in reversed(text.split(";")) if part.strip()]


def called_name(name: str) -> str:
    """What a call of a function of Python, or of an operator, looks like in the source: the bare name."""
    match = _PYTHON.fullmatch(name)
    built_in = None if match else _BUILT_IN.match(name)
    bare = match[3] if match else built_in[1] if built_in else name.rpartition("::")[2]
    return bare.rpartition(".")[2]
