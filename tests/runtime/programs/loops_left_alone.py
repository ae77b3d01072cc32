"""What a program hands to event loops is left alone, and so is what its handlers of signals raise; prints what it saw.

Run with and without a recorder, it prints the same.
"""

from __future__ import annotations

import asyncio
import gc
import queue
import signal
import weakref
from typing import Any

asked: list[str] = []


class Proxy:
    """Asks its server for whatever it does not have, as those of remote objects do."""

    def __init__(self, name: str = "server") -> None:
        object.__setattr__(self, "name", name)

    def __getattr__(self, name: str) -> Proxy:
        asked.append(f"{self.name}.{name}")
        return Proxy(f"{self.name}.{name}")

    def __call__(self, *arguments: Any) -> None:
        asked.append(f"{self.name}()")


async def proxies() -> None:
    loop = asyncio.get_running_loop()
    for number in range(5):
        loop.call_later(0.01 * number, Proxy().ping, Proxy("argument"))
    await asyncio.sleep(0.1)


class Late(Exception):
    pass


def late(*arguments: Any) -> None:
    raise Late


def interrupted() -> int:
    """How many of the alarms in the midst of work with queues are seen."""
    signal.signal(signal.SIGALRM, late)
    seen, waiting = 0, queue.Queue()  # type: ignore[var-annotated]
    for _ in range(20):
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        try:
            while True:
                waiting.put(1)
                waiting.get()
        except Late:
            seen += 1
    return seen


def kept() -> int:
    """How many loops are there that nobody has any more, where garbage is not collected."""
    gc.disable()
    loops = []
    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(asyncio.sleep(0.003))
        loop.close()
        loops.append(weakref.ref(loop))
    del loop
    gc.enable()
    return sum(one() is not None for one in loops)


asyncio.run(proxies())
print(asked)
print(interrupted(), kept())
