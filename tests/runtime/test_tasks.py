"""Calls of pools are described by what tells them apart, and by nothing that is in their arguments."""

from __future__ import annotations

from concurrent.futures.process import _process_chunk
from functools import partial
from multiprocessing.pool import mapstar, starmapstar

from scalana.runtime.remote.tasks import LENGTH, PIECES, VALUE, described


def expand(depth: int, prompt: str, width: float = 1.0, *, number: int = 0) -> None:
    """Does nothing."""


def test_integers_and_lengths_of_arguments_stand_for_a_call() -> None:
    given = (VALUE + "depth", 5, LENGTH + "prompt", 6)
    assert described(expand, (5, "secret"), {}) == ("expand", given)
    assert described(expand, (5,), {"number": 7, "prompt": "secret"}) == (
        "expand",
        (VALUE + "depth", 5, VALUE + "number", 7, LENGTH + "prompt", 6),
    )
    assert described(partial(expand, 5), ("secret", 2.5), {}) == ("expand", given)
    assert described(print, (True, 1 << 70, "x"), {}) == ("print", (LENGTH + "2", 1))


def test_what_pools_call_is_seen_through() -> None:
    given = (VALUE + "depth", 5)
    assert described(mapstar, ((expand, (5,)),), {}) == ("expand", given)
    assert described(starmapstar, ((expand, ((5, "secret"),)),), {}) == ("expand", (*given, LENGTH + "prompt", 6))
    assert described(partial(_process_chunk, expand), ([(5, "secret")],), {})[1] == (*given, LENGTH + "prompt", 6)
    assert described(mapstar, ((expand, (5, 6, 7)),), {}) == ("expand", (PIECES, 3))
    assert described(mapstar, (), {}) == ("mapstar", ())
