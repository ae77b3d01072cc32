"""Sampling by a plain Python thread, for interpreters whose frames cannot be read natively.

It needs the interpreter's lock for every sample, so that it starves beside threads that seldom let go of it: pure
Python code is seen less often than it runs. That is why it is only the fallback.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import CodeType, FrameType

from . import _core

_ASK_THE_KERNEL = 255
"""State of a sample that the kernel is to be asked for."""
_MOST_PATHS = 20_000
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep

_thread: threading.Thread | None = None
_stopping = threading.Event()


def start(rate_hz: float) -> None:
    """Samples all other threads from now on, ``rate_hz`` times a second at most. No-op when it runs, or for rate 0."""
    global _thread
    if rate_hz <= 0 or (_thread is not None and _thread.is_alive()):
        return
    _stopping.clear()
    _thread = threading.Thread(target=_run, args=(1.0 / rate_hz,), name="scalana-sample", daemon=True)
    _thread.start()


def stop() -> None:
    """Ends the sampling. To be called before the recorder is stopped."""
    global _thread
    thread, _thread = _thread, None
    if thread is not None:
        _stopping.set()
        if thread is not threading.current_thread():
            thread.join(timeout=1.0)


def _run(period_s: float) -> None:
    paths: dict[tuple[tuple[int, int], ...], tuple[int, list[CodeType]]] = {}
    next_tick = time.monotonic()
    while not _stopping.is_set():
        try:
            _sample_all(paths)
        except Exception as failure:
            _core.note(f"the sampler has stopped: {failure!r}")
            return
        next_tick = max(next_tick + period_s, time.monotonic())
        time.sleep(max(0.0, next_tick - time.monotonic()) or period_s / 4)


def _sample_all(paths: dict[tuple[tuple[int, int], ...], tuple[int, list[CodeType]]]) -> None:
    own = threading.get_ident()
    kernel_ids = {thread.ident: thread.native_id for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        tid = kernel_ids.get(ident)
        if ident == own or tid is None:
            continue
        path = _path_of(frame, paths)
        if path:
            _core.add_sample(tid, path, _ASK_THE_KERNEL)


def _path_of(frame: FrameType | None, paths: dict[tuple[tuple[int, int], ...], tuple[int, list[CodeType]]]) -> int:
    """Id of the call path from ``frame`` outwards, without the inner frames of the recorder; 0 if there is no other."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    steps: list[tuple[CodeType, int, int]] = []
    while frame is not None:
        steps.append((frame.f_code, frame.f_lasti, frame.f_lineno or frame.f_code.co_firstlineno))
        frame = frame.f_back
    if not steps:
        return 0
    key = tuple((id(code), lasti) for code, lasti, _ in steps)
    known = paths.get(key)
    if known is not None:
        return known[0]
    if len(paths) >= _MOST_PATHS:
        paths.clear()
    path = _core.sample_path(
        [(code.co_filename, _name(code), code.co_firstlineno, line) for code, _, line in reversed(steps)]
    )
    # The code objects are kept with the path, so that their ids stay theirs.
    paths[key] = (path, [code for code, _, _ in steps])
    return path


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)
