"""Where coroutines were that an event loop rested for.

The stack of a loop that rests ends in its selector, whatever the program awaits. What ends the rest tells: the task
that goes on then has awaited, at the innermost frame of its coroutines. Rests that a sample may have seen are written
as spans of type ``await``, with the path of that frame; reading the record, samples of the loop at rest are put there.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import weakref

from scalana.runtime import session
from scalana.runtime.typed import Any, CodeType, Iterator

_LEAST_NS = 2_000_000
"""A rest that is shorter is seldom seen: samples are 5 ms apart."""
_APART_NS = 5_000_000
"""Rests at one place that are less than this apart are written as one, ..."""
_LONGEST_NS = 1_000_000_000
"""... as long as that is not longer than this: what is not written yet when a process is killed is lost."""
_MOST_PATHS = 20_000
_MOST_FRAMES, _MOST_TASKS = 64, 4
_KINDS = (("cr_await", "cr_frame"), ("gi_yieldfrom", "gi_frame"), ("ag_await", "ag_frame"))
"""Of coroutines and generators: what they await, and where."""
_kinds: dict[type, tuple[str, str] | None] = {}
_MOST_KINDS = 100
_HOLDERS = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow")
"""What is awaited in place of a coroutine by one that is compiled, and of an asynchronous generator; holds it, and does
not say so."""
_ASYNCIO = os.path.join(os.path.dirname(os.__file__), "asyncio")
_FIRST = 8
"""Of what is to be done next, so much is looked at for a task."""
_AWAIT = 16
"""Type of these spans, ``SPAN_TYPE["await"]``."""
_THREAD = 0
"""Kind of the lane of a thread."""

_paths: dict[tuple[int, ...], tuple[int, bool, list[CodeType]]] = {}
"""Of each stack of coroutines inside a path its own path, whether there is any of the program's in it, and the code
objects, so that their ids stay theirs."""
_rests: weakref.WeakSet[Rests] = weakref.WeakSet()
TICKS: set[CodeType] = set()
"""Coroutines of libraries that look around now and then: a rest that one of them ends goes on behind it."""


class Rests:
    """The rests of one loop, of which what they were for is not written yet."""

    def __init__(self, loop: Any) -> None:
        self._loop = weakref.ref(loop)
        self._record = ""
        self._lane = self._outer = 0
        self.open: tuple[int, int] | None = None
        """From when to when a rest lasted of which it is not known yet what it was for."""
        self._since_ns = 0
        """When a rest began that ticks have ended so far, 0 for none."""
        self._begin_ns = self._end_ns = self._path = self._step = 0
        """Rests at one place that follow each other closely; none where there is no path."""
        _rests.add(self)

    def rested(self, since_ns: int, until_ns: int) -> None:
        """The loop has rested."""
        since_ns, self._since_ns = self._since_ns or since_ns, 0
        if until_ns - since_ns >= _LEAST_NS:
            self.open = since_ns, until_ns
            self._place(_next(self._loop()))

    def goes_on(self) -> None:
        """It has done what was to be done at once: what a message has woken is to be done next."""
        self._place(_ready(self._loop()))
        self.open = None

    def _place(self, awaiting: Any) -> None:
        if awaiting is None or self.open is None or session.core is None:
            return
        (since_ns, until_ns), self.open = self.open, None
        core = session.core
        if TICKS and any(code in TICKS for code, _ in _frames(awaiting)):
            self._since_ns = since_ns  # what runs meanwhile is not moved
            return
        if self._record != session.record_path:
            self._record = session.record_path
            self._path = self._outer = 0
            self._lane = core.lane(_THREAD, "")
        if not self._outer:
            self._outer = core.own_path()
        path = _path_of(awaiting, self._outer)
        near = since_ns - self._end_ns < _APART_NS and until_ns - self._begin_ns < _LONGEST_NS
        if self._path and path == self._path and near:
            self._end_ns = until_ns
            return
        self.write()
        self._begin_ns, self._end_ns, self._path, self._step = since_ns, until_ns, path, core.current_step()

    def write(self) -> None:
        """Write what is known."""
        core, path = session.core, self._path
        self._path = 0
        if core is not None and path and self._record == session.record_path:
            times = self._begin_ns, self._end_ns
            core.span_at(_AWAIT, self._lane, core.intern("await"), *times, path, self._step, 0, ())


def _next(loop: Any) -> Any:
    """The task that goes on next, now that the selector has returned; None where that is not known yet."""
    task = _ready(loop)
    timers = loop._scheduled
    if task is None and timers and timers[0]._when <= loop.time() + loop._clock_resolution:
        task = _task_of(timers[0])
    return task


def _ready(loop: Any) -> Any:
    """The first task that is ready to go on; None where there is none."""
    try:
        first = tuple(itertools.islice(loop._ready, _FIRST))
    except RuntimeError:  # another thread has just put something there
        return None
    return next((task for task in map(_task_of, first) if task is not None), None)


def _task_of(handle: Any) -> Any:
    """The task that goes on with a callback: its own step, or that of a future it awaits being done."""
    owner = _self_of(handle._callback)
    return owner if _is_task(owner) else _awaiting(owner, *(handle._args or ()))


def _awaiting(*futures: Any) -> Any:
    """The task that awaits one of some futures, itself or by ``wait_for`` and ``gather``; None where none is known."""
    owners = (owner for future in futures for callback in _callbacks(future) for owner in _owners(callback))
    return next((owner for owner in owners if _is_task(owner)), None)


def _owners(callback: Any) -> Iterator[Any]:
    """Whose method a callback is, then whose methods are called when what it was made with is done."""
    yield _self_of(callback)
    for future in _held_by(callback):
        yield from map(_self_of, _callbacks(future))


# What the program hands to a loop may be anything, a proxy that asks its server for each attribute among it. So it is
# the types of things that are asked what they are.


def _is_task(one: Any) -> bool:
    return hasattr(type(one), "get_coro")


def _callbacks(one: Any) -> list[Any]:
    """What is called when a future is done; nothing of anything else."""
    if not hasattr(type(one), "_asyncio_future_blocking"):
        return []
    return [callback for callback, *_ in one._callbacks or ()]


def _self_of(callback: Any) -> Any:
    """Whose method something is."""
    return callback.__self__ if hasattr(type(callback), "__self__") else None


def _held_by(callback: Any) -> list[Any]:
    """What a function that is called later was made with."""
    if type(callback) is functools.partial:
        return list(callback.args)
    cells = (callback.__closure__ or ()) if type(callback) is type(_held_by) else ()
    return [cell.cell_contents for cell in cells if _is_full(cell)]


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it is the asking that fails
    except ValueError:
        return False
    return True


def _frames(task: Any) -> Iterator[tuple[CodeType, int]]:
    """The same of the task alone."""
    awaited = task.get_coro()
    for _ in range(_MOST_FRAMES):
        kind = _kind_of(type(awaited))
        if kind is None:
            if type(awaited).__name__ not in _HOLDERS:
                return
            awaited = next((one for one in gc.get_referents(awaited) if _kind_of(type(one)) is not None), None)
            continue
        frame = getattr(awaited, kind[1], None)  # none of what is compiled
        if frame is not None:
            yield frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno
        awaited = getattr(awaited, kind[0])


def _kind_of(kind: type) -> tuple[str, str] | None:
    """What a coroutine or a generator of some type awaits, and where, by the names of its attributes."""
    known = _kinds.get(kind, "")
    if known == "":
        known = next((names for names in _KINDS if hasattr(kind, names[0])), None)
        if len(_kinds) < _MOST_KINDS:
            _kinds[kind] = known
    return known  # type: ignore[return-value]


def _path_of(task: Any, outer: int) -> int:
    """The path of where the coroutines of a task are, inside another path; where all of these are asyncio's own, behind
    those of the task that awaits it."""
    frames: list[tuple[CodeType, int]] = []
    path = 0
    for _ in range(_MOST_TASKS):
        frames = [*_frames(task), *frames]
        path, whole = _known(frames, outer)
        if whole:
            break
        task = _awaiting(task)
        if task is None:
            break
    return path


def _known(frames: list[tuple[CodeType, int]], outer: int) -> tuple[int, bool]:
    """The path of some frames inside another one, and whether one of them is none of asyncio's own."""
    key = (outer, *(part for code, line in frames for part in (id(code), line)))
    known = _paths.get(key)
    if known is None:
        if len(_paths) >= _MOST_PATHS:
            _paths.clear()
        steps = [
            (code.co_filename, getattr(code, "co_qualname", code.co_name), code.co_firstlineno, line)
            for code, line in frames
        ]
        path = session.core.sample_path(steps, outer) if steps and session.core is not None else 0
        whole = any(os.path.dirname(code.co_filename) != _ASYNCIO for code, _ in frames)
        known = _paths[key] = path, whole, [code for code, _ in frames]
    return known[0], known[1]


def write_rests() -> None:
    """Write what is known of the rests of all loops."""
    for rests in list(_rests):
        rests.write()


def _forget() -> None:
    """Another record begins, with paths of its own."""
    _paths.clear()


session.when_stopping(write_rests)
session.when_started(_forget)
