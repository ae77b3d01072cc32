"""Records where a program starts processes by :mod:`subprocess`: a rank that another rank starts is late by that."""

from __future__ import annotations

import sys

from scalana.runtime import session
from scalana.runtime.patching import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_MOST = 64
"""Starts that a process records: one that starts more does not start ranks."""
_MOST_FRAMES = 16
_patches = Patches("subprocess")
_recorded = 0


def patch(module: Any) -> None:
    """Record the call path of each start; ``module`` is ``subprocess``."""
    _patches.surround(module.Popen, "_execute_child", _enter, _started, "starts of processes")


def _enter(arguments: tuple[Any, ...]) -> None:
    """Nothing is known before."""


def _started(state: Any, arguments: tuple[Any, ...], result: Any, failure: type[BaseException] | None) -> None:
    global _recorded
    core, pid = session.core, getattr(arguments[0], "pid", None) if arguments else None
    if core is None or pid is None or failure is not None or _recorded >= _MOST:
        return
    _recorded += 1
    lines: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(lines) < _MOST_FRAMES:
        lines.append(f"{frame.f_lineno}\t{frame.f_code.co_name}\t{frame.f_code.co_filename}")
        frame = frame.f_back
    core.meta(f"started:{pid}", "\n".join(lines))
