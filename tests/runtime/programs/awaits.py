"""References of a library as Ray's are: awaited through a future that keeps them, while a coroutine beats beside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from scalana.runtime.remote import event_loops


class Reference:
    def __init__(self, call: int, seconds: float) -> None:
        self.call = call
        self.future: Future[int] = Future()
        self.future.object_ref = self  # type: ignore[attr-defined]
        threading.Timer(seconds, self.future.set_result, (call,)).start()

    def __await__(self) -> Generator[Any, None, int]:
        return asyncio.wrap_future(self.future).__await__()


def call_of(future: Any) -> tuple[int, int]:
    reference = getattr(future, "object_ref", None)
    return (reference.call, event_loops.line_of(id(reference))) if reference is not None else (0, 0)


async def beat() -> None:
    while True:
        await asyncio.sleep(0.03)


async def main() -> None:
    beating = asyncio.ensure_future(beat())
    await Reference(11, 0.2)  # awaits one
    await asyncio.gather(Reference(12, 0.1), Reference(13, 0.3))  # awaits two
    done = Reference(14, 0.0)
    await asyncio.sleep(0.1)
    await done  # is there
    beating.cancel()


event_loops.CALLS_OF.append(call_of)
asyncio.run(main())
