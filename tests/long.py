"""Cases that `make test` leaves out unless it is called with LONG=1."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def also(*values: object) -> list[Any]:
    """Values of one parameter of a test, each with the mark ``long``."""
    return also_rows(*((value,) for value in values))


def also_rows(*rows: tuple[object, ...]) -> list[Any]:
    """Likewise of several parameters."""
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]


def in_short(names: Iterable[str], short: Container[str]) -> list[Any]:
    """All names, in their order: those that are not short have the mark ``long``."""
    return [name if name in short else pytest.param(name, marks=pytest.mark.long) for name in names]
