"""Phases from the timers that trainers set in their own code: one row each, and a begin and an end that are wrapped.

Rows are those whose source was read in the release that is named; a class or method that is not there (any more)
becomes a note in the record. What a phase means is told by its name, after the job.
"""

from __future__ import annotations

import functools

from scalana.runtime import session
from scalana.runtime.spans import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TIMERS = (
    # TRL 1.16.0
    ("trl.extras.profiling", "ProfilingContext", "__enter__", "__exit__", "name", "trl"),
    # what verl 0.9.1 times by (marked_timer, simple_timer), as do others
    ("codetiming", "Timer", "start", "stop", "name", ""),
    # SkyRL 0.3.0
    ("skyrl.train.utils.utils", "Timer", "__enter__", "__exit__", "message", "skyrl"),
)
"""Module; class; methods that begin and end a phase; attribute that has its name; framework, if it is of one alone."""


def mark_timers(module: Any) -> None:
    """Let the timers of a module mark phases."""
    for home, name, begin, end, key, framework in TIMERS:
        if home != module.__name__:
            continue
        kind: Any = getattr(module, name, None)
        if not all(callable(getattr(kind, method, None)) for method in (begin, end)):
            session.note(f"{home}.{name} is not what it was: its phases are not recorded")
            continue
        wrap_timer(kind, begin, end, key, framework)


def wrap_timer(kind: type, begin: str, end: str, key: str, framework: str) -> None:
    """Record a phase from each call of a method of a class to the next one of another, on the same object."""
    running: dict[int, list[Any]] = {}

    def begins(timer: Any) -> None:
        name = getattr(timer, key, None)
        if name:
            attributes = {"framework": framework} if framework else {}
            running.setdefault(id(timer), []).append(span.begin(str(name), "phase", **attributes))

    def ends(timer: Any) -> None:
        open_ones = running.get(id(timer))
        if open_ones:
            open_ones.pop().end()
            if not open_ones:
                del running[id(timer)]

    setattr(kind, begin, around(getattr(kind, begin), after=begins))
    setattr(kind, end, around(getattr(kind, end), before=ends))


def around(
    method: Callable[..., Any],
    before: Callable[[Any], None] | None = None,
    after: Callable[[Any], None] | None = None,
) -> Callable[..., Any]:
    """``method``, with something done before or after it that never raises."""

    @functools.wraps(method)
    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        if before is not None:
            quietly(before, self)
        result = method(self, *arguments, **named)
        if after is not None:
            quietly(after, self)
        return result

    return wrapper


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of ours; what it raises becomes a note, and None its result."""
    if session.core is None:
        return None
    try:
        return function(*arguments)
    except Exception as failure:
        session.note(f"phases of reinforcement learning are not complete: {failure!r}")
        return None
