"""Functions of others, with something of ours done before and after them that never raises."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.patching import in_place_of
from scalana.runtime.typed import Any, Callable


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of ours; what it raises becomes a note, and None its result."""
    if session.core is None:
        return None
    try:
        return function(*arguments)
    except Exception as failure:
        session.pass_on(failure)
        session.note(f"reinforcement learning phases are incomplete: {failure!r}")
        return None


def owner_of(module: Any, kind: str) -> Any:
    """A class of a module, the module itself for the empty name, None if there is no such class."""
    return getattr(module, kind, None) if kind else module


def absent(home: str, kind: str, methods: str) -> None:
    """Say that what is to be wrapped is not there (any more)."""
    name = ".".join(part for part in (home, kind) if part)
    session.note(f"{name} has changed, or has no {methods}: its phases are not recorded")


def around(
    method: Callable[..., Any],
    before: Callable[..., Any] | None = None,
    after: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """``method`` with something done before it, and after it unless it raises, both given its arguments."""

    @in_place_of(method)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            quietly(before, arguments, named)
        result = method(*arguments, **named)
        if after is not None:
            quietly(after, arguments, named)
        return result

    return wrapper
