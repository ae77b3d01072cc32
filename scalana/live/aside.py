"""Work of the lowest priority, parts of which are done with the usual one.

A thread that has lowered its priority cannot raise it again. So what goes on beside a job runs in a thread of its own,
and hands what is urgent to the thread that started it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_LOWEST = 19
"""Of the priorities that leave the processor to others."""
_END_S = 1.0


class Aside:
    """Runs one function aside, and what that hands over here."""

    def __init__(self) -> None:
        self._urgent: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._left = threading.Event()

    def is_left(self, within_s: float = 0.0) -> bool:
        """Whether nobody waits for the function any more, so that it has to end; it is waited for that for a while."""
        return self._left.wait(within_s)

    def run(self, does: Callable[[], T]) -> T:
        """Run a function in a thread of the lowest priority; returns what it returns, or raises what it raises."""
        done: Future[T] = Future()
        done.add_done_callback(lambda _: self._urgent.put(None))
        thread = threading.Thread(target=lambda: _settle(done, _lowered(does)), daemon=True)
        try:
            thread.start()
            while (task := self._urgent.get()) is not None:
                task()
        except BaseException:
            self._left.set()
            if thread.is_alive():
                thread.join(_END_S)
            raise
        return done.result()

    def urgently(self, does: Callable[[], T]) -> T:
        """Have something done with the usual priority: called by the function that runs aside."""
        done: Future[T] = Future()
        self._urgent.put(lambda: _settle(done, does))
        return done.result()


def _lowered(does: Callable[[], T]) -> Callable[[], T]:
    def lowered() -> T:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)  # of this thread alone
        return does()

    return lowered


def _settle(done: Future[Any], does: Callable[[], Any]) -> None:
    try:
        done.set_result(does())
    except BaseException as error:
        done.set_exception(error)
