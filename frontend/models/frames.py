"""Which line of which module ran an operator, or raised an error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from traceback import StackSummary
from types import FrameType
from typing import Any

from scalana.graphs.structure.psg import Place

_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+)$', re.MULTILINE)

Frame = tuple[str, int, str]
"""File, line, function."""


@cache
def _of_torch() -> tuple[str, str, tuple[str, ...]]:
    """Folder of torch; what in it are modules; what among these only leads to others."""
    import torch

    folder = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")
    modules = os.path.join(folder, "nn", "")
    return folder, modules, (os.path.join(modules, "functional.py"), os.path.join(modules, "modules", "module.py"))


def is_machinery(file: str) -> bool:
    """Whether a file is of torch, and none of its modules: it leads to an operator, and nobody wants to be shown it."""
    folder, modules, ways = _of_torch()
    if os.path.basename(file).startswith("<"):  # code that dynamo and fx generate
        return True
    return file.startswith(folder) and (not file.startswith(modules) or file in ways)


def frames_of_text(stack_trace: str | None) -> list[Frame]:
    """The frames of a node's ``stack_trace``, outermost first."""
    found = [(os.path.abspath(file), int(line), name) for file, line, name in _FRAME.findall(stack_trace or "")]
    return [frame for frame in found if not is_machinery(frame[0])]


@contextmanager
def all_frames() -> Iterator[None]:
    """While it lasts, torch notes every frame of the user's code in a ``stack_trace``. By itself it leaves out all that
    are not of a ``forward``, and with them the helper functions in which operators stand."""
    from torch.fx.proxy import TracerBase

    before = getattr(TracerBase, "_filter_traceback_frames", None)
    if before is None:  # a torch that has no such filter
        yield
        return

    def kept(self: Any, summary: Any) -> StackSummary:
        first = next((number for number, frame in enumerate(summary) if frame.name == "forward"), len(summary))
        return StackSummary.from_list([frame for frame in summary[first:] if not is_machinery(frame.filename)])

    TracerBase._filter_traceback_frames = kept
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = before


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
