"""What threads hand to each other by queues, where their process talks to others: told by one id on both sides."""

from __future__ import annotations

import _thread
import asyncio
import queue
import threading
import time
from types import SimpleNamespace

import pytest

from scalana.runtime import session
from scalana.runtime.remote import calls, thread_queues

_OF_EACH_CLASS = ("__dict__", "__weakref__")


class Told:
    """What would be recorded: messages that were put, and messages that were waited for."""

    def __init__(self) -> None:
        self.put: list[int] = []
        self.got: list[int] = []
        self.asked = 0


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """A process that records, with queues of its own, and talks to others."""
    result, kinds = Told(), {}
    for kind in ("Queue", "LifoQueue", "PriorityQueue"):
        bases = (kinds["Queue"],) if kinds else (object,)
        own = {name: value for name, value in vars(getattr(queue, kind)).items() if name not in _OF_EACH_CLASS}
        kinds[kind] = type(kind, bases, own)
    thread_queues.patch(SimpleNamespace(__name__="queue", **kinds))
    result.kinds = SimpleNamespace(**kinds)  # type: ignore[attr-defined]
    monkeypatch.setattr(session, "core", SimpleNamespace(moment=lambda: (1, 1)))
    monkeypatch.setattr(session, "record_path", "a record")
    monkeypatch.setattr(thread_queues, "talks_in", ["a record"])
    monkeypatch.setattr(calls, "put", result.put.append)
    monkeypatch.setattr(calls, "expect", lambda: 1)
    monkeypatch.setattr(calls, "message", lambda handle, message: result.got.append(message) if handle else None)
    monkeypatch.setattr(calls, "expected", lambda message, times: result.got.extend([message] * len(list(times))))
    monkeypatch.setattr(calls, "asked", lambda: setattr(result, "asked", result.asked + 1))
    return result


def test_both_threads_know_a_message_by_one_id(told: Told) -> None:
    made = told.kinds.Queue()  # type: ignore[attr-defined]
    for item in "abc":
        made.put(item)
    assert [made.get(), made.get(timeout=1), made.get_nowait()] == ["a", "b", "c"]
    assert told.got == told.put and len(set(told.put)) == 3


def test_what_was_there_before_has_no_id(told: Told) -> None:
    made = told.kinds.Queue()  # type: ignore[attr-defined]
    thread_queues.talks_in[0] = ""
    made.put("before")
    thread_queues.talks_in[0] = "a record"
    made.put("behind")
    assert [made.get(), made.get()] == ["before", "behind"]
    assert told.got == [0, *told.put]


def test_a_queue_that_somebody_emptied_goes_on(told: Told) -> None:
    made = told.kinds.Queue()  # type: ignore[attr-defined]
    for item in "ab":
        made.put(item)
    made.queue.clear()
    made.put("c")
    assert made.get() == "c"
    assert told.got == told.put[-1:]


def test_waits_in_vain_are_told_with_what_comes(told: Told) -> None:
    made = told.kinds.Queue()  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(queue.Empty):
            made.get(timeout=0.001)
    with pytest.raises(queue.Empty):
        made.get_nowait()
    made.put("late")
    assert made.get() == "late"
    (message,) = told.put
    assert told.got == [0, 0, message, message, message]
    assert told.asked == 1


def test_other_orders_are_as_they_were(told: Told) -> None:
    """Of these no ids are known."""
    for kind, order in (("LifoQueue", [2, 3, 1]), ("PriorityQueue", [1, 2, 3])):
        made = getattr(told.kinds, kind)()  # type: ignore[attr-defined]
        for item in (1, 3, 2):
            made.put(item)
        assert [made.get() for _ in range(3)] == order
    assert told.put == [] and set(told.got) == {0}


def test_nothing_is_told_of_processes_without_sockets(told: Told) -> None:
    thread_queues.talks_in[0] = ""
    made = told.kinds.Queue()  # type: ignore[attr-defined]
    made.put("a")
    assert made.get() == "a"
    assert told.put == told.got == []


def test_who_waits_for_a_coroutine_of_another_thread_waits_for_that_one(told: Told) -> None:
    tasks = SimpleNamespace(__name__="asyncio.tasks", run_coroutine_threadsafe=asyncio.run_coroutine_threadsafe)
    module = SimpleNamespace(__name__="asyncio", tasks=tasks)
    thread_queues.patch_coroutines(module)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        future = module.run_coroutine_threadsafe(asyncio.sleep(0.01, "done"), loop)
        assert future.result(5) == "done"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert told.put == [future._scalana_call]


def test_a_thread_without_other_frames_hands_over_as_ever(told: Told) -> None:
    """As one that compiled code has begun, and that calls a method of a queue first thing."""
    made = told.kinds.Queue()  # type: ignore[attr-defined]
    _thread.start_new_thread(made.get, ())
    made.put("a")
    for _ in range(500):
        if made.empty():
            break
        time.sleep(0.01)
    assert made.empty()


def test_a_queue_that_is_emptied_by_other_means_keeps_nothing(told: Told) -> None:
    waiting = told.kinds.Queue()  # type: ignore[attr-defined]
    for number in range(50):
        waiting.put(number)
        with waiting.mutex:
            waiting.queue.clear()
    assert len(waiting.__dict__["_scalana_ids"]) <= 1
    waiting.put("last")
    assert waiting.get() == "last" and told.got[-1] == told.put[-1]
