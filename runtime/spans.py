"""Spans that a program names in its own record, public as ``scalana.span`` and ``scalana.region``.

The type is one of C (``_core/module/span_type.c``), so that a span costs less than a microsecond. A program that is
never recorded may run on a Python for which the extension was not built: there a span does nothing.
"""

from __future__ import annotations

from scalana.runtime.typed import Any, Callable, TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["decorated", "region", "span"]


class _Unrecorded:
    """What :class:`span` is where nothing can be recorded."""

    __slots__ = ("name",)

    def __init__(self, name: Any, kind: str = "region", lane: Any = None, **attributes: Any) -> None:
        self.name = str(name)

    @classmethod
    def begin(cls, name: Any, kind: str = "region", lane: Any = None, **attributes: Any) -> _Unrecorded:
        return cls(name)

    def end(self, **attributes: Any) -> None:
        """Nothing has begun."""

    def again(self, shares_thread: bool) -> _Unrecorded:
        return self

    def __enter__(self) -> _Unrecorded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing has begun."""

    def __call__(self, function: F) -> F:
        return decorated(self, function)


def decorated(mark: Any, function: F) -> F:
    """``function`` inside a span like ``mark``, each time that it is called.

    Of a coroutine the CPU time is not known: its thread runs others meanwhile. A generator is marked from its first
    item to its last, with what its consumer does in between; so is an asynchronous one.
    """
    import functools
    import inspect

    make = mark.again
    wrapper: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make(True):
                return await function(*args, **kwargs)

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make(True):
                items = function(*args, **kwargs)
                try:
                    async for item in items:
                        yield item
                finally:
                    await items.aclose()

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make(True):
                return (yield from function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make(False):
                return function(*args, **kwargs)

    return wrapper  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from scalana.runtime._core import Span as span
else:
    try:
        from scalana.runtime._core import Span as span
    except ImportError:
        span = _Unrecorded

region = span
"""A span of the kind that it has by default: ``with region("augment"): ...`` or ``@region("augment")``."""
