"""Puts wrappers around functions of a library, and says which it did not find."""

from __future__ import annotations

import functools
import sys

from scalana.runtime import session
from scalana.runtime.typed import Any, Callable, Enter, Function, Leave

_COROUTINE = 0x80
"""Flag of the code of a coroutine function."""


class Patches:
    """Wrappers around what one library has."""

    def __init__(self, library: str) -> None:
        self.library = library
        self._noted: set[str] = set()

    def wrap(self, owner: Any, name: str, make: Callable[[Function], Function], recorded: str) -> None:
        """Replace ``owner.name`` by what ``make`` makes of it; note that ``recorded`` is not, where there is none."""
        original = getattr(owner, name, None)
        if not callable(original):
            whole = f"{owner.__name__}.{name}" if isinstance(owner, type) else name
            session.note(f"{self.library}: {whole} not found: {recorded} are not recorded")
            return
        setattr(owner, name, _made(original, make))

    def surround(self, owner: Any, name: str, enter: Enter, leave: Leave, recorded: str) -> None:
        """Do something before and after ``owner.name``, which has no frame of ours for that (:func:`surrounded`)."""
        self.wrap(owner, name, lambda original: surrounded(original, enter, leave), recorded)

    def wrap_item(
        self, table: dict[Any, Any], key: Any, name: str, make: Callable[[Function], Function], recorded: str
    ) -> None:
        """The same with a function in a table; ``name`` is what the function is there."""
        original = table.get(key)
        if not callable(original):
            session.note(f"{self.library}: {name} not found: {recorded} are not recorded")
            return
        table[key] = _made(original, make)

    def failed(self, what: str, failure: BaseException) -> None:
        """Note, once for each kind, that something could not be recorded."""
        session.pass_on(failure)
        if what not in self._noted:
            self._noted.add(what)
            session.note(f"{self.library}: {what}: {type(failure).__name__}: {failure}")

    def tried(self, what: str, function: Callable[[], None]) -> None:
        """Call something that must not disturb the program, whatever becomes of it."""
        try:
            function()
        except Exception as failure:
            self.failed(what, failure)


def _made(original: Function, make: Callable[[Function], Function]) -> Function:
    """What is to stand in the place of a function: itself, where nothing is put around it."""
    wrapper = make(original)
    return original if wrapper is original else in_place_of(original)(wrapper)


def in_place_of(original: Function) -> Callable[[Function], Function]:
    """Decorates a wrapper so that it looks like what it wraps; its code has that name, too, by which tracebacks and
    reports tell its frames."""

    def named(wrapper: Function) -> Function:
        functools.update_wrapper(wrapper, original)
        code = getattr(wrapper, "__code__", None)
        if code is not None and hasattr(original, "__qualname__"):
            qualified = {"co_qualname": original.__qualname__} if hasattr(code, "co_qualname") else {}
            wrapper.__code__ = code.replace(co_name=original.__name__, **qualified)  # type: ignore[attr-defined]
        return wrapper

    return named


def surrounded(original: Function, enter: Enter, leave: Leave) -> Function:
    """The same function, with ``enter(arguments)`` before it, which returns a state, and after it ``leave(state,
    arguments, result, type of an exception)``. Tracebacks of what it raises do not show that."""
    try:
        from scalana.runtime._core import AroundCall
    except ImportError:  # then nothing is recorded
        return original
    around = functools.update_wrapper(AroundCall(original, enter, leave), original)
    if getattr(getattr(original, "__code__", None), "co_flags", 0) & _COROUTINE:
        for module, name in (("inspect", "_is_coroutine_mark"), ("asyncio.coroutines", "_is_coroutine")):
            mark = getattr(sys.modules.get(module), name, None)
            if mark is not None:  # as what wraps a coroutine function, and returns what it returns, says of itself
                setattr(around, name, mark)
    return around
