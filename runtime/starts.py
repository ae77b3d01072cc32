"""Records where a program starts processes by :mod:`subprocess`: a rank that another rank starts is late by that.

And which programs it starts that start others elsewhere: these get nothing of the environment.
"""

from __future__ import annotations

import os
import sys

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.record import layout
from scalana.runtime.record.launchers import REMOTE_SHELLS, hosts_reached
from scalana.runtime.typed import Any, FrameType

_MOST = 64
"""Starts that a process records: one that starts more does not start ranks."""
_MOST_FRAMES = 16
_patches = Patches("subprocess")
_recorded = 0
_elsewhere: list[str] = []
_hosts: list[str] = []


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
    _note_remote_shell(arguments[1] if len(arguments) > 1 else "")


def _note_remote_shell(words: Any) -> None:
    first = words if isinstance(words, (str, bytes, os.PathLike)) else next(iter(words), "")
    text = os.fsdecode(first)
    name = os.path.basename(text if first is not words else text.partition(" ")[0])
    if name in REMOTE_SHELLS and name not in _elsewhere:
        _elsewhere.append(name)
        session.core.meta("starts_elsewhere_by", ",".join(_elsewhere))
    if name in REMOTE_SHELLS and first is not words:
        _note_hosts(hosts_reached([os.fsdecode(word) for word in words]))


def _note_hosts(reached: list[str]) -> None:
    here = os.uname().nodename
    new = [host for host in reached if host not in (here, *_hosts)]
    if new:
        _hosts.extend(new)
        layout.note_launch(session.run_folder, layout.process_name(here, os.getpid()), new)
