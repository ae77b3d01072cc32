"""How many things a call is about is asked of Python's own types alone."""

from __future__ import annotations

from typing import Any

import pytest

from scalana.runtime.remote import sizes


class Loud(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise AssertionError("the program's own code is not to be run")


@pytest.mark.parametrize(
    ("arguments", "count"),
    [(([1, 2, 3],), 3), ((7, (1, 2)), 2), (("text", [1]), 0), ((), 0), ((Loud(), [1, 2]), 2), ((b"bytes", {1, 2}), 0)],
)
def test_the_first_list_says_how_many(arguments: tuple[Any, ...], count: int) -> None:
    assert sizes.several(arguments) == count


def test_nothing_is_marked_where_nothing_is_recorded() -> None:
    assert sizes.begin("generate", ([1, 2],)) is None
