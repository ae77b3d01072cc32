"""Ids of messages of ZeroMQ, made of what both sides see of them: nothing can be sent along.

A message is a row of frames, before which sockets put others on its way, and take them off: a ``ROUTER`` puts the name
of the peer before what it receives, and takes the first frame of what it sends for one; ``REQ`` and ``REP`` hide all up
to an empty frame. So a message is known by its frames behind the last empty one, without a router's own. A ``DEALER``
does not know whether its first frame is such a name, which a proxy may have left there: it knows a message by two ids.

Messages of equal contents have one id. Who takes one waits for what was given last before.
"""

from __future__ import annotations

from zlib import crc32

from scalana.runtime.remote.calls import mixed
from scalana.runtime.typed import Any

_WHOLE = 4096
"""Frames of up to so many bytes are looked at as a whole; of larger ones these many at most."""
_ENDS = 1024
"""Bytes at either end of a larger frame."""
_BETWEEN = 1024
"""About so many, evenly spaced, are looked at between."""


def bytes_of(frame: Any) -> Any:
    """A frame as bytes or as a view of these; what zmq sends is anything that has such a view."""
    if type(frame) is bytes:
        return frame
    view = memoryview(frame)
    return view.cast("B") if view.nbytes else b""


def sum_of(frame: Any) -> int:
    """A sum over the bytes of a frame (:func:`bytes_of`), at a cost that has a bound."""
    size = len(frame)
    if size <= _WHOLE:
        return crc32(frame)
    view = memoryview(frame)
    value = crc32(view[-_ENDS:], crc32(view[:_ENDS]))
    return crc32(view[_ENDS : -_ENDS : max(size // _BETWEEN, 1)].tobytes(), value)


class Message:
    """What is known of a message so far: frames are added one by one.

    Args:
        named: whether its first frame is the name of a peer, which the other side does not see.
        may_be_named: whether it may be one.
    """

    __slots__ = ("_may_be_named", "_skips", "frames", "nbytes", "rest", "whole")

    def __init__(self, named: bool = False, may_be_named: bool = False) -> None:
        self._skips, self._may_be_named = named, may_be_named
        self.whole = self.rest = 0
        self.frames = self.nbytes = 0

    def add(self, frame: Any, more: bool) -> None:
        """Its next frame, as bytes; ``more``: it is not the last."""
        size = len(frame)
        self.nbytes += size
        if self._skips:
            self._skips = False
        elif more and not size:
            self.whole = self.rest = self.frames = 0
            self._may_be_named = False
        else:
            value = size << 32 | sum_of(frame)
            if self.frames:
                self.rest = mixed(value, self.rest)
            self.whole = mixed(value, self.whole)
            self.frames += 1

    def ids(self) -> tuple[int, ...]:
        """The ids of it, once its last frame is there."""
        if self._may_be_named and self.frames > 1:
            return self.whole, self.rest
        return (self.whole,)
