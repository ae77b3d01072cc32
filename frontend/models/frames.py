"""Which line of which module ran an operator, or raised an error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import FrameType
from typing import Any

from scalana.graphs.structure.psg import Place

_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+)$', re.MULTILINE)

Frame = tuple[str, int, str]
"""File, line, function."""


@cache
def _machinery() -> tuple[str, ...]:
    """What of torch calls modules and captures operators instead of computing something."""
    import torch

    folder = os.path.dirname(os.path.abspath(torch.__file__))
    names = ("fx", "export", "_export", "_dynamo", "_functorch", "_subclasses", "_ops.py", "overrides.py", "utils")
    return tuple(os.path.join(folder, name) for name in (*names, "nn/modules/module.py", "nn/functional.py"))


def is_machinery(file: str) -> bool:
    """Whether a file is of torch and only leads to what it computes."""
    return file.startswith(_machinery()) or "<eval_with_key>" in file


def frames_of_text(stack_trace: str | None) -> list[Frame]:
    """The frames of a node's ``stack_trace``, outermost first."""
    found = [(os.path.abspath(file), int(line), name) for file, line, name in _FRAME.findall(stack_trace or "")]
    return [frame for frame in found if not is_machinery(frame[0])]


def frames_below(frame: FrameType | None, above: FrameType | None) -> list[Frame]:
    """The frames from one, innermost, out to another, which is left out; outermost first."""
    found: list[Frame] = []
    while frame is not None and frame is not above:
        file = frame.f_code.co_filename
        if not is_machinery(file) and file != __file__:
            found.append((file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]


def place_of(frames: Sequence[Frame], name: str) -> Place:
    """The innermost frame, as the place of what is called ``name``."""
    file, line, _ = frames[-1] if frames else ("", 0, "")
    return Place(file, line, line, -1, name)


def sites(frames: Sequence[Frame], modules: int) -> list[Place | None]:
    """Where each of so many nested modules is called, from the outermost, whose call is not among the frames.

    Known where as many frames are of a ``forward`` as there are modules.
    """
    forwards = [number for number, frame in enumerate(frames) if frame[2] == "forward"]
    if len(forwards) != modules:
        return [None] * modules
    return [place_of(frames[:number], "") if number else None for number in forwards]


def raised_in(error: BaseException, names: Mapping[int, str], default: str = "") -> tuple[str, Frame | None]:
    """The innermost module of a model in which an error was raised, and the line there.

    Args:
        error: what was raised, with its traceback.
        names: qualified names by ``id`` of the module.
        default: the module that is blamed where none of them ran.
    """
    best: tuple[int, str, Frame | None] = (-1, default, None)
    for one in _causes(error):
        depth = 0
        trace = one.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            name = names.get(id(frame.f_locals.get("self")))
            if name is not None and not is_machinery(frame.f_code.co_filename):
                depth += 1
                if depth >= best[0]:
                    best = depth, name, (frame.f_code.co_filename, trace.tb_lineno, frame.f_code.co_name)
            trace = trace.tb_next
    return best[1:]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def class_name(kind: type[Any]) -> str:
    """The qualified name of a class, as export notes it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def class_place(kind: type[Any], name: str) -> Place:
    """Where a class is defined; only its file, or nothing, where there is no source."""
    import inspect

    try:
        lines, first = inspect.getsourcelines(kind)
        return Place(os.path.abspath(inspect.getsourcefile(kind) or ""), first, first + len(lines) - 1, 0, name)
    except (OSError, TypeError):
        module = sys.modules.get(kind.__module__)
        return Place(getattr(module, "__file__", None) or "", 0, 0, -1, name)
