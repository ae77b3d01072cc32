"""The device's side of collectives, on chosen steps: when a rank's stream came to one, and when it went on after it.

The stream that launches a collective comes to it when all is done that was launched before; what lies there is when the
rank's data was ready, which is what others wait for. When the stream waits for the collective (``Work.wait``) and that
is over, another event comes. Where the program has C++ wait, nobody tells when that was: then only the beginning is
recorded, and that the ends of all members are one is left to the reader.
"""

from __future__ import annotations

import os

from scalana.runtime import chosen_steps
from scalana.runtime.device import marks
from scalana.runtime.device.durations import key_of
from scalana.runtime.device.pool import Origin, Pool
from scalana.runtime.operations import BY_CODE
from scalana.runtime.torch.groups import address
from scalana.runtime.typed import Any, Callable

LANE = "communication"
_ONE_QUEUE = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
"""Whether all streams share one queue of the device, as Megatron asks for: events around collectives would keep these
from running beside kernels."""
_MOST_POSTED = 1024
"""Collectives of which it is remembered that nobody has waited for them yet."""


class Posted:
    """A collective that nobody has waited for yet."""

    __slots__ = ("begin", "event", "operation", "pool", "where")

    def __init__(self, pool: Pool, begin: int, event: int, operation: int, where: tuple[int, int]) -> None:
        self.pool, self.begin, self.event, self.operation, self.where = pool, begin, event, operation, where

    def write(self, end: int) -> None:
        """Write it, from where its stream came to it up to another mark."""
        attributes = ("collective", BY_CODE[self.operation].name)
        name = f"{BY_CODE[self.operation].name} on the device"
        self.pool.span(self.begin, end, "kernel", name, attributes, Origin(self.event, LANE, self.where))


class Collectives:
    """Those of this process."""

    def __init__(self) -> None:
        self._posted: dict[int, Posted] = {}
        self._pool: Pool | None = None
        self._step = -1

    def coming(self, event: int, operation: int) -> Posted | None:
        """The host is about to launch a collective of the device, which is an event of the record."""
        try:
            return self._coming(event, operation)
        except Exception:
            return None

    def _coming(self, event: int, operation: int) -> Posted | None:
        pool = marks.pool()
        if pool is None or _ONE_QUEUE:
            return None
        self.follow(pool)
        where = pool.core.here()
        if where[1] != self._step:  # which may have no marks, and its collectives the addresses of earlier ones
            self._write_rest()
            self._step = where[1]
        if not chosen_steps.is_chosen(where[1]):
            return None
        begin = pool.mark()
        return Posted(pool, begin, event, operation, where) if begin >= 0 else None

    def follow(self, pool: Pool) -> None:
        """Write what is left of a step when that is over."""
        if pool is not self._pool:
            self._pool = pool
            self._posted.clear()
            pool.before_next.append(self._write_rest)

    def number(self, posted: Posted, process_group: Any, tensor: Any) -> None:
        """The host has launched it, and nothing else in its group since: how long it takes is known by its number."""
        pool = posted.pool
        if pool.durations is None:
            return
        try:
            pool.timed(posted.begin, posted.event, key_of(process_group, tensor))
        except Exception as failure:
            pool.untimed(failure)

    def launched(self, posted: Posted, work: Any, waits: bool) -> None:
        """The host has launched it; ``work`` is what it gave back, if that is to be waited for."""
        if work is not None and len(self._posted) < _MOST_POSTED:
            if earlier := self._posted.get(where := address(work)):
                earlier.write(earlier.begin)  # nobody has waited for it where it could be seen, and it is gone
            self._posted[where] = posted
        else:
            posted.write(posted.pool.mark() if waits else posted.begin)

    def waited(self, work: Any) -> None:
        """The stream waits for a collective, and nothing that is launched from here on comes before its end."""
        posted = self._posted.pop(address(work), None) if self._posted else None
        if posted is not None:
            end = posted.pool.mark()
            posted.write(end if end >= 0 else posted.begin)

    def _write_rest(self) -> None:
        """Of those that C++ waited for only the beginning is known."""
        rest, self._posted = self._posted, {}
        for posted in rest.values():
            posted.write(posted.begin)


collectives = Collectives()


def watch_waits(work_class: Any) -> None:
    """See the waits for collectives, once there is a device."""

    def found() -> None:
        for owner in (work_class, *work_class.__subclasses__()):
            for name in ("wait", "synchronize"):
                original = vars(owner).get(name)
                if original is not None and not hasattr(original, "__scalana__"):
                    setattr(owner, name, _watched(original, name))

    marks.when_found(found)


def _watched(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        try:
            collectives.waited(self)
        except Exception:
            pass
        return result

    wait.__name__ = name
    wait.__qualname__ = f"Work.{name}"
    wait.__doc__ = original.__doc__
    wait.__wrapped__ = original  # type: ignore[attr-defined]
    wait.__scalana__ = True  # type: ignore[attr-defined]
    return wait
