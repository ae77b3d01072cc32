"""Records what threads of a process hand to each other, where it talks to others by sockets: by a ``queue.Queue``, and
as coroutines to the event loop of another thread.

A server has threads that send and receive, and one that computes: what this one waits for is what another process is
late with, two steps away. In a process that has no such sockets a queue is a matter of its own, and nothing is
recorded.
"""

from __future__ import annotations

import sys
from _thread import _local
from collections import deque

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Function

_HOME = "queue"
_OF_OTHERS = (
    "torch.utils.data.",
    "logging.",
    "concurrent.futures.",
    "multiprocessing.",
    "asyncio.",
    "scalana.",
    "ray.",
)
"""Whose queues are details of what is recorded otherwise."""
_IDS = "_scalana_ids"
"""Where a queue has the ids of what is in it."""
_MOST_WAITS, _MOST_QUEUES = 1000, 64
"""Waits in vain that are told with what comes in the end."""
_patches = Patches("queue")
_own = _local()
"""``taken``: the id of what this thread has taken last; ``vain``: when it waited in vain, by addresses of queues."""

talks_in = [""]
"""The record in which this process has said something to another one by a socket, or has listened."""


def patch(module: Any) -> None:
    """Record what is handed over; ``module`` is ``queue``."""
    _patches.wrap(module.Queue, "_put", _append, "messages between threads")
    _patches.wrap(module.Queue, "_get", _take, "messages between threads")
    _patches.wrap(module.Queue, "get", _get, "messages between threads")


def patch_coroutines(module: Any) -> None:
    """Record waits for coroutines that run in the event loop of another thread; ``module`` is ``asyncio``."""
    _patches.wrap(module.tasks, "run_coroutine_threadsafe", _run_elsewhere, "waits for coroutines of other threads")
    module.run_coroutine_threadsafe = module.tasks.run_coroutine_threadsafe


def _run_elsewhere(original: Function) -> Function:
    def run_coroutine_threadsafe(coro: Any, loop: Any) -> Any:
        future = original(coro, loop)
        if _is_recorded():
            _patches.tried("a wait for a coroutine is not recorded", lambda: _follow(future))
        return future

    return run_coroutine_threadsafe


def _follow(future: Any) -> None:
    """From now on somebody may wait for what another thread makes."""
    result = future._scalana_call = calls.new_id()
    future.add_done_callback(lambda _: calls.put(result))


def _is_recorded() -> bool:
    """Whether what our caller's caller does with a queue, or a loop, is recorded."""
    if session.core is None or talks_in[0] != session.record_path:
        return False
    frame = sys._getframe(1).f_back  # None where compiled code calls it that no code of Python has called
    while frame is not None and frame.f_globals.get("__name__") == _HOME:
        frame = frame.f_back
    return frame is not None and not frame.f_globals.get("__name__", "").startswith(_OF_OTHERS)


def _append(original: Function) -> Function:
    def append(self: Any, item: Any) -> Any:
        result = original(self, item)
        if _is_recorded():
            _patches.tried("what a thread hands over was not recorded", lambda: _put(self))
        return result

    return append


def _put(queue: Any) -> None:
    """Something is in a queue, behind what was there before; its lock is held."""
    ids = queue.__dict__.setdefault(_IDS, deque())
    before = len(queue.queue) - 1
    _forget(ids, before)
    ids.extendleft(0 for _ in range(before - len(ids)))
    message = calls.new_id()
    ids.append(message)
    calls.put(message)


def _forget(ids: deque[int], left: int) -> None:
    """Ids of what somebody took by other means, as less is left."""
    while len(ids) > left:
        ids.popleft()


def _take(original: Function) -> Function:
    def take(self: Any) -> Any:
        ids = self.__dict__.get(_IDS)
        if ids:
            left = len(self.queue)
            _forget(ids, left)
            _own.taken = ids.popleft() if len(ids) == left > 0 else 0
        return original(self)

    return take


def _get(original: Function) -> Function:
    def get(self: Any, block: Any = True, timeout: Any = None) -> Any:
        since = calls.moment() if _is_recorded() else None
        if since is None:
            return original(self, block, timeout)
        _own.taken = 0
        handle = calls.expect() if block else 0
        if not block:
            calls.asked()
        try:
            item = original(self, block, timeout)
        except BaseException:
            calls.message(handle, 0)
            if block:
                _patches.tried("a wait in vain was not recorded", lambda: _waited_in_vain(self, since))
            raise
        message = _own.taken
        calls.message(handle, message)
        if message:
            vain = _own.__dict__.get("vain", {}).pop(id(self), [])
            calls.expected(message, vain if block else [*vain, (since, since)])
        return item

    return get


def _waited_in_vain(queue: Any, since: tuple[int, int]) -> None:
    until = calls.moment()
    if until is not None:
        vain = _own.__dict__.setdefault("vain", {})
        if len(vain) >= _MOST_QUEUES:
            vain.clear()
        waits = vain.setdefault(id(queue), [])
        waits.append((since, until))
        del waits[:-_MOST_WAITS]
