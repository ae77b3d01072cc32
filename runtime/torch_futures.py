"""Waits for the future of a ``Work``, which are waits for its operation as ``Work.wait`` is."""

from __future__ import annotations

import weakref

from scalana.runtime.torch_groups import address
from scalana.runtime.torch_state import Pending, recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_futures: Any = weakref.WeakKeyDictionary()
"""Future in Python -> address of its Work and the post that it completes."""


def patch(work_class: Any, future_class: Any, enter: Callable[[Pending], int], leave: Callable[[int], None]) -> None:
    """Record ``future_class.wait`` on futures that ``work_class.get_future`` gave out, by ``enter`` and ``leave``."""
    for owner in (work_class, *work_class.__subclasses__()):
        original = vars(owner).get("get_future")
        if original is not None:
            owner.get_future = _remembering(original)
    future_class.wait = _recorded_wait(future_class.wait, enter, leave)


def future_of(work: Any) -> Any:
    """``work.get_future()``, for ourselves."""
    method = work.get_future
    original = getattr(method, "__wrapped__", None)
    return method() if original is None else original(work)


def _remembering(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_future(self: Any) -> Any:
        future = original(self)
        try:
            place = address(self)
            pending = recording.works.get(place)
            if pending is not None:
                _futures[future] = (place, pending)
        except Exception as failure:
            recording.failed("waits for futures are not recorded", failure)
        return future

    get_future.__qualname__ = "Work.get_future"
    get_future.__doc__ = original.__doc__
    get_future.__wrapped__ = original  # type: ignore[attr-defined]
    return get_future


def _recorded_wait(
    original: Callable[..., Any], enter: Callable[[Pending], int], leave: Callable[[int], None]
) -> Callable[..., Any]:
    def wait(self: Any) -> Any:
        found = None
        try:
            if _futures:
                found = _futures.pop(self, None)
        except Exception as failure:
            recording.failed("waits for futures are not recorded", failure)
        if found is None:
            return original(self)
        place, pending = found
        if recording.works.get(place) is pending:
            del recording.works[place]
        event = enter(pending)
        try:
            return original(self)
        finally:
            leave(event)

    wait.__qualname__ = "Future.wait"
    wait.__doc__ = original.__doc__
    wait.__wrapped__ = original  # type: ignore[attr-defined]
    return wait
