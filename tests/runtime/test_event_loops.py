"""When an event loop has nothing to do but to wait for its next call."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from scalana.runtime import session
from scalana.runtime.remote import calls, event_loops
from tests.attempts import attempts


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is recorded, of which the moments count."""
    monkeypatch.setattr(session, "core", object())
    monkeypatch.setattr(calls, "moment", lambda: (time.monotonic_ns(), time.thread_time_ns()))


async def waited(what: SimpleNamespace) -> float:
    """Seconds that the loop is said to have waited for a call that begins when another thread says so."""
    loop, waits = asyncio.get_running_loop(), event_loops.waits_here()
    assert waits is not None
    if what.pool:
        await loop.run_in_executor(None, int)
        while loop._default_executor._idle_semaphore._value == 0:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
    at_work = loop.run_in_executor(None, time.sleep, 0.2) if what.busy else None
    one, other = socket.socketpair()
    if what.file:
        loop.add_reader(one.fileno(), print)
    if what.file == "quiet":
        waits.files[one.fileno()] = lambda: what.awaited
    begun = loop.create_future()
    threading.Timer(0.1, lambda: loop.call_soon_threadsafe(begun.set_result, waits.begin_call)).start()
    seconds = sum(until[0] - since[0] for since, until in (await begun)()) / 1e9
    loop.remove_reader(one.fileno())
    for end in (one, other):
        end.close()
    if at_work is not None:
        await at_work
    return seconds


@pytest.mark.parametrize(
    ("what", "waits"),
    [
        ({}, True),
        ({"pool": True}, True),
        ({"pool": True, "busy": True}, False),
        ({"file": "any"}, False),
        ({"file": "quiet"}, True),
        ({"file": "quiet", "awaited": True}, False),
    ],
)
def test_a_loop_waits_for_its_next_call_where_nothing_else_could_wake_it(what: dict[str, object], waits: bool) -> None:
    """Threads of its pool that have nothing to do could not, nor a file of which nothing is awaited."""
    whole = SimpleNamespace(**{"pool": False, "busy": False, "file": "", "awaited": False, **what})
    for _ in attempts(3 if waits else 1):  # on a busy machine the call may be there before the loop waits
        found = asyncio.run(waited(whole)) > 0.05
        if found == waits:
            return
    pytest.fail(f"whether it waited: {found}")
