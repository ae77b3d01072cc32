"""What is written of models beside the record, for the front end to read after the job.

::

    {"models": [{"root": class of the model, "modules": [{"name", "class", "file", "line", "end_line"}]}],
     "frames": [[file, line, function]],
     "graphs": [{"nodes": [{"op", "frames": [row of frames], "modules": [[qualified name, class]], "shape", "dtype"}]}],
     "sources": [{"op", "frames": [row of frames], "modules": [[qualified name, class]]}],
     "wrappers": [{"file", "compilation", "phase": "forward", "backward" or "inference", "by": "writing", "kept" or
                   "text", "calls": [{"line", "kernel", "sources": [[row of sources, how much]]}]}]}

Of a module the file and lines are those of its ``forward``. One that searches for parameters without a gradient in each
step has ``searched``: their number. A wrapper is Python that inductor wrote: of each line that
calls a kernel it is told which operators that came from, and how much each does: elements that it goes through, or
multiplications of a product (0 where unknown).
"""

from __future__ import annotations

import os
import re

from scalana.runtime import session
from scalana.runtime.record import layout
from scalana.runtime.typed import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Key = TypeVar("_Key")

models: list[dict[str, Any]] = []
graphs: list[dict[str, Any]] = []
wrappers: list[dict[str, Any]] = []
_frames: dict[tuple[str, int, str], int] = {}
_frame_rows: list[tuple[str, int, str]] = []
_sources: dict[tuple[str, tuple[int, ...], tuple[tuple[str, str], ...]], int] = {}
_by_row: list[tuple[str, tuple[int, ...], tuple[tuple[str, str], ...]]] = []
_folders: set[str] = set()
"""Those of records beside which this was written."""
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+)$', re.MULTILINE)


def frames_in(trace: str | None) -> list[tuple[str, int, str]]:
    """The frames in the text of a stack trace, the innermost last."""
    return [(os.path.abspath(file), int(line), name) for file, line, name in _FRAME.findall(trace or "")]


def class_name(kind: Any) -> str:
    """The qualified name of a class, or of what has one already."""
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def frame(file: str, line: int, function: str) -> int:
    """The row of a frame, which is added where it is new."""
    return _number((file, line, function), _frames, _frame_rows)


def source(operator: str, frames: list[tuple[str, int, str]], modules: list[tuple[str, str]]) -> int:
    """The row of an operator of a line in modules, which is added where it is new."""
    return _row(operator, tuple(frame(*one) for one in frames), tuple(modules))


def count_sources() -> int:
    """How many operators of lines there are."""
    return len(_by_row)


def as_operator(rows: list[int], operator: str) -> int:
    """The row of another operator of the line of some rows, in the modules that they have in common."""
    _, frames, modules = _by_row[rows[0]]
    common = 0
    for around in zip(modules, *(_by_row[row][2] for row in rows[1:]), strict=False):
        if len(set(around)) > 1:
            break
        common += 1
    return _row(operator, frames, modules[:common])


def innermost(row: int) -> tuple[str, int, str] | None:
    """The innermost frame of a source, None where it has none."""
    frames = _by_row[row][1]
    return _frame_rows[frames[-1]] if frames else None


def _row(operator: str, frames: tuple[int, ...], modules: tuple[tuple[str, str], ...]) -> int:
    return _number((operator, frames, modules), _sources, _by_row)


def _number(key: _Key, known: dict[_Key, int], rows: list[_Key]) -> int:
    """The row of a key, which is added where it is new."""
    found = known.get(key)
    if found is None:
        found = known[key] = len(rows)
        rows.append(key)
    return found


def write() -> None:
    """Write all that is known so far, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    import json

    if session.core is not None:
        sources = [{"op": name, "frames": rows, "modules": around} for name, rows, around in _by_row]
        content = {
            "models": models,
            "frames": _frame_rows,
            "graphs": graphs,
            "sources": sources,
            "wrappers": wrappers,
        }
        layout.write_text(layout.models_file(session.record_path), json.dumps(content))
        _folders.add(os.path.dirname(session.record_path))


def _new_record() -> None:
    """Graphs stay what they are in a new record (they are compiled once), and are told again where it is of another
    run; modules are told again when they are met."""
    models.clear()
    if (graphs or wrappers) and os.path.dirname(session.record_path) not in _folders:
        try:
            write()
        except OSError as failure:
            session.note(f"torch: compiled graphs are not recorded: {failure}")


session.when_started(_new_record)
