"""Waits for the future of a ``Work``, which are waits for its operation as ``Work.wait`` is."""

from __future__ import annotations

import weakref

from scalana.runtime.torch.groups import address
from scalana.runtime.torch.state import recording
from scalana.runtime.typed import Any, Callable

_futures: Any = weakref.WeakKeyDictionary()
"""Future in Python -> event of the post that it completes, and address of its Work."""


def patch(work_class: Any, future_class: Any) -> None:
    """Record ``future_class.wait`` on futures that ``work_class.get_future`` gave out."""
    for owner in (work_class, *work_class.__subclasses__()):
        original = vars(owner).get("get_future")
        if original is not None:
            owner.get_future = _remembering(original)
    future_class.wait = _recorded_wait(future_class.wait)


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
            event = recording.core.torch_post_of_work(place)
            if event:
                _futures[future] = (event, place)
        except Exception as failure:
            recording.failed("waits for futures are not recorded", failure)
        return future

    get_future.__qualname__ = "Work.get_future"
    get_future.__doc__ = original.__doc__
    get_future.__wrapped__ = original  # type: ignore[attr-defined]
    return get_future


def _recorded_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(self: Any) -> Any:
        event = 0
        try:
            found = _futures.pop(self, None) if _futures else None
            if found is not None:
                event = recording.core.torch_wait_for(*found)
        except Exception as failure:
            recording.failed("waits for futures are not recorded", failure)
        if not event:
            return original(self)
        try:
            return original(self)
        finally:
            recording.core.torch_leave(event, False)

    wait.__qualname__ = "Future.wait"
    wait.__doc__ = original.__doc__
    wait.__wrapped__ = original  # type: ignore[attr-defined]
    return wait
