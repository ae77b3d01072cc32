"""Marks each call that a pool of processes or of threads does, so that a report can name it.

A mark has the name of the function, the number of the call in its pool, and of the arguments what tells calls apart:
integers, and lengths of texts and lists. What is in texts and lists is not written. Calls of less than 0.2 ms have no
mark.
"""

from __future__ import annotations

import time
from itertools import count

from scalana.runtime import session
from scalana.runtime.typed import Any, Iterator, Mapping, Sequence

NUMBER = "task"
GIVEN = "task:given_ns"
"""How long before its begin a call was handed over, where that is known."""
VALUE, LENGTH = "task:value:", "task:length:"
"""What stands before the name of an argument that is an integer, or that has a length."""
PIECES = "task:pieces"
"""Calls that a pool does as one."""
_SHORT_NS = 200_000
_MOST = 3
"""Arguments that are described."""
_SIZED = (str, bytes, list, tuple, dict, set, range)
_OF_SEVERAL = ("mapstar", "starmapstar", "_process_chunk")
"""Functions of pools that do several calls at once."""
_numbers = count()
"""Of the calls of pools of threads."""


class Begun:
    """A call that is under way."""

    __slots__ = ("began", "cpu_began", "function", "given", "number")

    def __init__(self, number: int, function: str, given: tuple[object, ...]) -> None:
        self.number, self.function, self.given = number, function, given
        self.began, self.cpu_began = session.core.now(), time.thread_time_ns()


def begin(function: Any, args: Sequence[Any], by_name: Mapping[str, Any], number: int, since: int = 0) -> Begun | None:
    """A call begins in this thread; ``since`` is when it was handed over, if that is known. None where nothing is
    recorded."""
    if session.core is None:
        return None
    name, given = described(function, args, by_name)
    if since:
        given = (*given, GIVEN, session.core.now() - since)
    return Begun(number, name, given)


def described(function: Any, args: Sequence[Any], by_name: Mapping[str, Any]) -> tuple[str, tuple[object, ...]]:
    """The name of a call, and keys and numbers, one after the other, that tell it from others."""
    function, args, by_name, pieces = _inner(function, args, by_name)
    given = tuple(_described(function, args, by_name)) if pieces == 1 else (PIECES, pieces)
    return str(getattr(function, "__name__", type(function).__name__)), given


def end(begun: Begun | None) -> None:
    """What has begun is over."""
    core = session.core
    if begun is None or core is None:
        return
    now = core.now()
    if now - begun.began < _SHORT_NS:
        return
    attributes: list[Any] = [core.intern(NUMBER), begun.number]
    for place, each in enumerate(begun.given):
        attributes.append(each if place % 2 else core.intern(each))
    cpu_ns = time.thread_time_ns() - begun.cpu_began
    kind = core.span_types.index("other")
    core.span(kind, 0, core.intern(begun.function), begun.began, now, cpu_ns, 0, tuple(attributes))


def next_number() -> int:
    """Of a call that a pool of threads is given."""
    return next(_numbers)


def _inner(
    function: Any, args: Sequence[Any], by_name: Mapping[str, Any]
) -> tuple[Any, Sequence[Any], Mapping[str, Any], int]:
    """The function of the program in what a pool calls, its arguments, and how many calls of it that is."""
    while type(function).__name__ == "partial" and hasattr(function, "func"):
        args, by_name, function = (*function.args, *args), {**function.keywords, **by_name}, function.func
    name = getattr(function, "__name__", "")
    if name not in _OF_SEVERAL or not args:
        return function, args, by_name, 1
    # ``(f, items)``, or the items apart; of each item one argument, or several.
    called, items = args[:2] if name == "_process_chunk" and len(args) == 2 else args[0]
    if len(items) != 1:
        return called, (), {}, len(items)
    return called, (items[0],) if name == "mapstar" else items[0], {}, 1


def _described(function: Any, args: Sequence[Any], by_name: Mapping[str, Any]) -> Iterator[object]:
    """Keys and numbers, one after the other, that tell a call from others."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    given = [(names[place] if place < len(names) else str(place), value) for place, value in enumerate(args)]
    described = 0
    for name, value in (*given, *by_name.items()):
        if described == _MOST:
            return
        if type(value) is int and abs(value) < 1 << 62:
            yield from (VALUE + name, value)
        elif type(value) in _SIZED:
            yield from (LENGTH + name, len(value))
        else:
            continue
        described += 1
