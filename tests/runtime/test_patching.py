"""Wrappers around functions of libraries."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import signal
import sys
import traceback
from types import SimpleNamespace
from typing import Any

import pytest

from scalana.runtime import session
from scalana.runtime.patching import Patches, in_place_of, surrounded


class Loader:
    """What a library has."""

    def load(self, number: int) -> tuple[int, str]:
        return number, sys._getframe(1).f_code.co_name


def test_a_wrapper_goes_by_the_name_of_what_it_wraps() -> None:
    """Samples name code objects: a report is to say ``Loader.load``, as without recording."""
    library: Any = type("Loader", (Loader,), {"load": Loader.load})

    def wrap(inner: Any) -> Any:
        def recorded(self: object, number: int) -> Any:
            return inner(self, number)

        return recorded

    Patches("library").wrap(library, "load", wrap, "loads")
    assert library.load is not Loader.load and library().load(3) == (3, "load")
    assert library.load.__code__.co_name == "load"


def test_what_nothing_is_put_around_stays_as_it_is() -> None:
    library: Any = type("Loader", (Loader,), {"load": Loader.load})
    Patches("library").wrap(library, "load", lambda inner: inner, "loads")
    assert library.load is Loader.load and not hasattr(library.load, "__wrapped__")


def test_so_does_one_in_a_table() -> None:
    table: dict[str, Any] = {"load": Loader.load}
    Patches("library").wrap_item(table, "load", "load", lambda inner: lambda *args: inner(*args), "loads")
    assert table["load"] is not Loader.load and table["load"](Loader(), 3) == (3, "load")


def test_no_wrapper_is_named_in_a_traceback() -> None:
    async def answer(number: int) -> None:
        raise ValueError(number)

    @in_place_of(answer)
    async def recorded(*arguments: Any) -> None:
        await answer(*arguments)

    with pytest.raises(ValueError) as raised:
        asyncio.run(recorded(3))
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][-2:] == ["answer", "answer"]


def test_what_is_not_where_it_was_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    Patches("library").wrap(SimpleNamespace(__name__="module"), "gone", lambda inner: inner, "loads")
    assert notes == ["library: gone not found: loads are not recorded"]


def test_a_wrapper_that_is_no_function_is_left_as_it_is() -> None:
    owner = SimpleNamespace(work=lambda: 1)
    made = type("Made", (), {"__call__": lambda self: 2})()
    Patches("library").wrap(owner, "work", lambda inner: made, "work")
    assert owner.work is made and owner.work() == 2


def _told(*told: object) -> list[object]:
    _said.append(told)
    return _said


_said: list[object] = []


def add(a: int, b: int = 0) -> int:
    if b < 0:
        raise ValueError(b)
    return a + b


class Adder:
    def add(self, a: int, b: int = 0) -> int:
        return add(a, b)


def test_what_is_done_around_a_function_has_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    _said.clear()
    around = surrounded(add, lambda arguments: ("state", arguments), _told)
    assert around(1, b=2) == 3 and _said == [(("state", (1, 2)), (1, 2), 3, None)]
    with pytest.raises(ValueError, match="-1") as raised:
        around(1, -1)
    assert [entry.frame.code.name for entry in raised.traceback][1:] == ["add"]
    assert _said[-1] == (("state", (1, -1)), (1, -1), None, ValueError)
    monkeypatch.setattr(Adder, "add", surrounded(Adder.add, lambda arguments: len(arguments), _told))
    assert Adder().add(4) == 4 and _said[-1][0] == 2  # type: ignore[index]
    assert inspect.signature(around) == inspect.signature(add) and around.__name__ == "add"


def test_what_fails_around_a_function_is_its_own_affair(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*told: object) -> None:
        raise RuntimeError

    def interrupted(*told: object) -> None:
        raise KeyboardInterrupt

    assert surrounded(add, fail, _told)(1, 2) == 3
    assert surrounded(add, _told, fail)(1, 2) == 3
    with pytest.raises(ValueError, match="-1"):
        surrounded(add, _told, fail)(1, -1)
    for enter, leave in ((interrupted, _told), (_told, interrupted)):
        with pytest.raises(KeyboardInterrupt):
            surrounded(add, enter, leave)(1, -1)
    # It is pickled as what it stands for.
    monkeypatch.setitem(globals(), "add", around := surrounded(add, _told, _told))
    assert pickle.loads(pickle.dumps(around)) is around and copy.deepcopy(around) is around


def test_what_a_handler_of_signals_raises_is_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come while something of ours is done, whose own failures are left alone."""
    noted: list[str] = []
    monkeypatch.setattr(session, "note", noted.append)

    def handler(number: int, frame: object) -> None:
        raise TimeoutError

    def interrupted() -> None:
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        patches = Patches("some library")
        with pytest.raises(TimeoutError):
            patches.tried("something", interrupted)
        assert noted == []
        patches.tried("something", lambda: [][1])
        assert len(noted) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_is_put_around_a_coroutine_function_says_that_it_is_one() -> None:
    async def original() -> int:
        return 7

    around = surrounded(original, lambda arguments: None, lambda *arguments: None)
    assert asyncio.iscoroutinefunction(around) and asyncio.run(around()) == 7
    assert not asyncio.iscoroutinefunction(surrounded(len, lambda arguments: None, lambda *arguments: None))
