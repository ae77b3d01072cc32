"""How many things a call is about, where the first list or tuple among its arguments has several: prompts, seeds.

Only the types that Python itself has are looked at: to ask the length of any other may run code of the program.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Iterable

_LISTS = (list, tuple)
KEY = "items"


def several(arguments: Iterable[Any]) -> int:
    """How many things some arguments are about; 0 for one, or where that is not known."""
    count = next((len(one) for one in arguments if type(one) in _LISTS), 0)
    return count if count > 1 else 0


def begin(name: str, arguments: Iterable[Any]) -> Any:
    """A call begins in this thread: a mark to be ended with it, if it is about several things, else None."""
    if session.core is None:
        return None
    count = several(arguments)
    return span.begin(name, "request", items=count) if count else None
