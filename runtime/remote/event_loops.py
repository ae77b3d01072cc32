"""Records that an event loop of :mod:`asyncio` waits for calls of other processes: of process pools
(``run_in_executor``, ``wrap_future``), and of others that make a future of what they wait for.

A loop waits in its selector, for whatever comes first. What it waited there since something began to wait for a result,
and for which no other result came, is waiting for this one; no more is recorded of it than that.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque

from scalana.runtime import session
from scalana.runtime.patching import Patches, in_place_of
from scalana.runtime.remote import calls
from scalana.runtime.remote.coroutines import Rests
from scalana.runtime.typed import Any, Callable, Function, Moment

_SHORT_NS = 50_000
"""A loop that is less than this in its selector has something else to do."""
_BETWEEN_NS = 5_000_000
"""A loop that computes for less than this between two waits is woken for one thing in several steps. On a busy machine
these steps may be far apart, as it waits for a core as well."""
_MOST_WAITS = 1000
"""Waits of a loop that are kept until a result comes; about as many are written for all that come at a time."""
_MOST_TIMERS = _MOST_FILES = 64
"""Timers and files of a loop up to which it is looked what they are for."""
_TIME_LIMITS = ("_release_waiter", "_on_timeout")
"""What timers of ``asyncio.wait_for``, ``wait`` and ``timeout`` call."""
_MOST_LINES = 10_000
"""Awaited objects of which it is kept where."""
_patches = Patches("asyncio")

CALLS_OF: list[Callable[[Any], tuple[int, int]]] = []
"""Each tells the call whose result a future of :mod:`concurrent.futures` stands for, 0 for none that it knows, and the
path to where it is awaited, 0 where that is here."""
_lines: dict[object, tuple[str, int]] = {}
"""Of what is awaited: the record then, and the path to where."""


class _Waits:
    """What a loop waited in its selector."""

    def __init__(self, loop: Any, selector: Any) -> None:
        self._unclaimed: deque[tuple[Moment, Moment, bool]] = deque(maxlen=_MOST_WAITS)
        """For which no result and no call came so far, the last at the end: begin, end, and whether nothing else could
        end it."""
        self._claimed: Moment | None = None
        """From when on waits are claimed by results that came since the last."""
        self._written = 0
        """How many of them were, since then."""
        self.expected = 0
        """Results that something waits for."""
        self.files: dict[int, Callable[[], bool]] = {}
        """Files that wake the loop for nothing as long as nothing is awaited of them: whether anything is."""
        # Nothing here keeps a loop: who has switched the collection of garbage off would keep all.
        self._loop, self._selector = weakref.ref(loop), weakref.ref(selector)
        self.rests = Rests(loop)
        self.watch()

    def watch(self) -> None:
        """See what the loop waits from now on."""
        selector = self._selector()
        if selector is None or "select" in selector.__dict__:
            return
        select = selector.select

        @in_place_of(select)
        def watched(timeout: Any = None) -> Any:
            if self.rests.open is not None:
                _patches.tried("lines that await are not recorded", self.rests.goes_on)
            if timeout == 0:  # it has something to do
                if self._claimed is not None:
                    self._forget_claimed()
                return select(timeout)
            since = calls.moment()
            ready = select(timeout)
            _patches.tried("waits are not recorded", lambda: self._waited(since, timeout, bool(ready)))
            return ready

        watched._scalana_waits = True  # type: ignore[attr-defined]
        selector.select = watched

    def stops(self) -> None:
        """The loop runs no more, for now or for good."""
        self.rests.write()
        self._unclaimed.clear()
        selector = self._selector()
        if selector is not None and hasattr(selector.__dict__.get("select"), "_scalana_waits"):
            del selector.select

    def _waited(self, since: Moment | None, timeout: float | None, ready: bool) -> None:
        """The selector returns, from what it was asked for without a time limit or with one, as something is ready or
        nothing is."""
        until = calls.moment()
        self._forget_claimed()
        if since is not None and until is not None and until[0] - since[0] >= _SHORT_NS:
            _patches.tried("lines that await are not recorded", lambda: self.rests.rested(since[0], until[0]))
            endless = timeout is None or (ready and _only_time_limits(self._loop()))
            self._unclaimed.append((since, until, endless and self._is_alone()))

    def _is_alone(self) -> bool:
        """Whether nothing but a call can wake the loop: no thread of its pool is at work, and no file could."""
        loop, selector = self._loop(), self._selector()
        if loop is None or selector is None:
            return False
        pool = loop._default_executor
        if pool is not None:
            idle = getattr(getattr(pool, "_idle_semaphore", None), "_value", -1)
            if idle < len(getattr(pool, "_threads", ())) or not pool._work_queue.empty():
                return False
        files = selector.get_map()
        if len(files) > _MOST_FILES:
            return False
        return len(files) == 1 or sum(1 for file in files if file not in self.files or self.files[file]()) == 1

    def claim(self, began: Moment) -> list[tuple[Moment, Moment]]:
        """What was waited from a moment on for a result that is there now. Others that came with it claim the same."""
        self._claimed = began if self._claimed is None else min(began, self._claimed)
        own: list[tuple[Moment, Moment]] = []
        for since, until, _ in reversed(self._unclaimed):
            if since < began or (own and self._written >= _MOST_WAITS):
                break
            own.append((since, until))
            self._written += 1
        return own[::-1]

    def has_come(self, future: Any) -> None:
        """A result, or who waited for it gave up."""
        self.expected -= 1

    def begin_call(self) -> list[tuple[Moment, Moment]]:
        """What was waited for a call that begins now, as far as nothing else could end it: one wait in pieces, between
        which the loop did next to nothing. Nothing where a result is waited for as well: that it is, then."""
        own: list[tuple[Moment, Moment]] = []
        if self.expected > 0:
            return own
        later = calls.moment()
        while later is not None and self._unclaimed:
            since, until, alone = self._unclaimed[-1]
            if not alone or later[1] - until[1] > _BETWEEN_NS:
                break
            own.append((since, until))
            later = since
            self._unclaimed.pop()
        self._unclaimed.clear()  # what was waited before it is none of the next call's
        return own[::-1]

    def _forget_claimed(self) -> None:
        claimed, self._claimed, self._written = self._claimed, None, 0
        while claimed is not None and self._unclaimed and self._unclaimed[-1][0] >= claimed:
            self._unclaimed.pop()


def _only_time_limits(loop: Any) -> bool:
    """Whether all timers of a loop are limits of how long something is waited for, which end nothing in good time."""
    timers = loop._scheduled
    if len(timers) > _MOST_TIMERS:
        return False
    return all(timer._cancelled or _name_of(timer._callback) in _TIME_LIMITS for timer in timers)


def _name_of(callback: Any) -> str:
    """What a function is called; "" for anything else, which may be a proxy that asks its server for that."""
    return str(callback.__name__) if hasattr(type(callback), "__code__") or hasattr(type(callback), "__func__") else ""


def patch(module: Any) -> None:
    """Record waits of event loops; ``module`` is ``asyncio.futures``."""
    _patches.wrap(module, "wrap_future", _wrap_future, "waits of event loops for pools")
    _patches.wrap(module, "_copy_future_state", _copy_future_state, "waits of event loops for pools")


def patch_loops(module: Any) -> None:
    """Watch loops from when they begin to run; ``module`` is ``asyncio.base_events``."""
    _patches.surround(module.BaseEventLoop, "run_forever", _runs, _stops, "lines that await")


def _runs(arguments: tuple[Any, ...]) -> _Waits | None:
    try:
        waits = _waits_of(arguments[0])
        if waits is not None:
            waits.watch()
        return waits
    except Exception as failure:
        _patches.failed("lines that await are not recorded", failure)
        return None


def _stops(waits: _Waits | None, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
    if waits is not None:
        _patches.tried("lines that await are not recorded", waits.stops)


def patch_tasks(module: Any) -> None:
    """Know where tasks are made of what they await; ``module`` is ``asyncio.tasks``."""
    if hasattr(module, "_wrap_awaitable"):
        _patches.wrap(module, "_wrap_awaitable", _wrap_awaitable, "lines of some awaits")
    else:  # from Python 3.12 on it is made in there
        _patches.wrap(
            module, "ensure_future", lambda original: _ensure_future(original, module), "lines of some awaits"
        )


class Awaited:
    """Something that a coroutine begins to wait for in the running loop, where it is now."""

    __slots__ = ("_began", "_path", "_record", "_waits")

    def __init__(self) -> None:
        self._waits = _waits_of(_running())
        core = session.core
        # The CPU clock is not asked for: that may take as long as all else here.
        self._began = None if core is None else (core.now(), 0)
        self._record, self._path = session.record_path, calls.own_path()
        if self._waits is not None:
            self._waits.expected += 1

    def over(self, call: int, server: int = 0) -> None:
        """It is there, or is not waited for any more: the result of a call, of a server with a number
        (:func:`scalana.runtime.remote.calls.wait`)."""
        waits, self._waits = self._waits, None
        if waits is not None:
            waits.expected -= 1
            if self._began is not None and self._record == session.record_path:
                for since, until in waits.claim(self._began):
                    calls.waited(call, since, until, self._path, server)


def begin_call() -> list[tuple[Moment, Moment]]:
    """A call begins in the running loop of this thread: from and to when this had nothing to do but to wait for it."""
    waits = _waits_of(_running())
    return [] if waits is None else waits.begin_call()


def waits_here() -> _Waits | None:
    """What the running loop of this thread waits from now on; None where it is none of asyncio's own."""
    return _waits_of(_running())


def await_here(key: object) -> None:
    """Something is awaited where this thread is now: later on only the loop will be seen."""
    path = calls.own_path()
    if path:
        if len(_lines) >= _MOST_LINES:
            _lines.clear()
        _lines[key] = session.record_path, path


def line_of(key: object) -> int:
    """The path to where something is awaited, which is asked for once; 0 where that is not known."""
    record, path = _lines.pop(key, ("", 0))
    return path if record == session.record_path else 0


def _running() -> Any:
    events = sys.modules.get("asyncio.events")
    return events._get_running_loop() if events is not None else None


def _waits_of(loop: Any) -> _Waits | None:
    """What a loop waits; None where it is none of asyncio's own."""
    selector = getattr(loop, "_selector", None)
    if selector is None:
        return None
    known = selector.__dict__.get("_scalana_waits")
    if known is None:
        known = selector._scalana_waits = _Waits(loop, selector)
    return known  # type: ignore[no-any-return]


def _wrap_awaitable(original: Function) -> Function:
    def wrap_awaitable(awaitable: Any) -> Any:
        if session.core is not None and CALLS_OF:
            await_here(id(awaitable))
        return original(awaitable)

    return wrap_awaitable


def _ensure_future(original: Function, module: Any) -> Function:
    def ensure_future(*args: Any, **kwargs: Any) -> Any:
        if session.core is not None and CALLS_OF and args:
            _patches.tried("lines of some awaits are not recorded", lambda: _await_of(args[0], module))
        return original(*args, **kwargs)

    return ensure_future


def _await_of(awaited: Any, module: Any) -> None:
    """A task is made of something, if it is none and no coroutine; ``module`` is ``asyncio.tasks``."""
    if not module.futures.isfuture(awaited) and not module.coroutines.iscoroutine(awaited):
        await_here(id(awaited))


def _wrap_future(original: Function) -> Function:
    def wrap_future(future: Any, *args: Any, **kwargs: Any) -> Any:
        wrapped = original(future, *args, **kwargs)
        if session.core is not None:
            _patches.tried("a wait for a result is not recorded", lambda: _expect(future, wrapped))
        return wrapped

    return wrap_future


def _expect(future: Any, wrapped: Any) -> None:
    """From now on something waits for what a future stands for."""
    call, line = getattr(future, "_scalana_call", 0), 0
    for calls_of in CALLS_OF:
        if not call:
            call, line = calls_of(future)
    now, waits = calls.moment(), _waits_of(wrapped.get_loop()) if call else None
    if now is not None and waits is not None:
        waits.expected += 1
        wrapped.add_done_callback(waits.has_come)
        future._scalana_awaited = call, now, session.record_path, line or calls.own_path()


def _copy_future_state(original: Function) -> Function:
    def copy_future_state(source: Any, dest: Any, *args: Any, **kwargs: Any) -> Any:
        awaited = getattr(source, "_scalana_awaited", None)
        if awaited is not None and session.core is not None:
            _patches.tried("a wait for a result was not recorded", lambda: _tell(awaited, dest.get_loop()))
        return original(source, dest, *args, **kwargs)

    return copy_future_state


def _tell(awaited: tuple[int, Moment, str, int], loop: Any) -> None:
    """The result is there."""
    call, began, record, path = awaited
    waits = _waits_of(loop)
    if waits is not None and record == session.record_path:
        for since, until in waits.claim(began):
            calls.waited(call, since, until, path)
