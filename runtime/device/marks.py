"""The marks of this process on its device, if it has one; what modules, pipelines and collectives ask for.

``pool()`` is ``None`` where there is no device, or the program has not used it yet.
"""

from __future__ import annotations

import os
import sys

from scalana.runtime import chosen_steps, session
from scalana.runtime.device.backend import Backend
from scalana.runtime.device.durations import of_torch
from scalana.runtime.device.pool import Pool
from scalana.runtime.typed import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.device.backend import DeviceModule
    from scalana.runtime.device.durations import Durations

SWITCH = "SCALANA_DEVICE"
"""Variable that forbids marks on devices with ``0``."""
_KINDS = ("cuda", "xpu")
"""Modules of torch that have streams and events, by their names."""

_pool: Pool | None = None
_hooked = False
_when_found: list[Callable[[], None]] = []


def pool() -> Pool | None:
    """The marks of this process. To be asked for once a step: while there are none, it looks for a device."""
    if _pool is not None or session.core is None:
        return _pool
    torch = sys.modules.get("torch")
    if torch is None or os.environ.get(SWITCH) == "0":
        return None
    try:
        for name in _KINDS:
            module = getattr(torch, name, None)
            if module is not None and module.is_initialized():
                use(name, module)
                break
    except Exception as failure:
        session.note(f"device: {type(failure).__name__}: {failure}")
    return _pool


def use(name: str, module: DeviceModule, durations: Durations | None = None) -> None:
    """Mark on the devices of a module like ``torch.cuda`` from now on; ``durations`` in place of what torch says."""
    global _pool, _hooked
    if session.core is None or os.environ.get(SWITCH) == "0":
        return
    _pool = Pool(Backend(name, module), session.core, session.note, durations or of_torch(name))
    session.core.meta("device", name)
    if not _hooked:
        _hooked = True
        session.when_started(_forget)
        session.when_stopping(_finish)
    for function in _when_found:
        function()


def when_found(function: Callable[[], None]) -> None:
    """Call a function each time that a device is found; at once if one is."""
    _when_found.append(function)
    if _pool is not None:
        function()


def holds(tensor: Any) -> bool:
    """Whether a tensor lies on a device, so that what is done with it is only begun by the host."""
    return not tensor.is_cpu if _pool is None else _pool.backend.holds(tensor)


def begin() -> int:
    """A mark, where there is a device and this is a chosen step; else -1."""
    try:
        if session.core is None or not chosen_steps.is_chosen(session.core.current_step()):
            return -1
        here = pool()
        return -1 if here is None else here.mark()
    except Exception:
        return -1


def end(begun: int, kind: str, name: str, attributes: tuple[object, ...] = ()) -> None:
    """What the device did since a mark, if it is one: see :meth:`Pool.span`."""
    if begun >= 0 and _pool is not None:
        _pool.span(begun, _pool.mark(), kind, name, attributes)


def _finish() -> None:
    if _pool is not None:
        _pool.finish()


def _forget() -> None:
    """A new record has begun, maybe in a forked process, whose device is not that of its parent."""
    global _pool
    _pool = None
