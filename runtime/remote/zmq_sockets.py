"""Records messages of ZeroMQ (pyzmq): who receives, or polls, waits for who sends.

Nothing is added to what is sent; a message is known by its contents (:mod:`scalana.runtime.remote.zmq_ids`). Frames are
looked at one by one, as they are sent and received: all functions that send or receive go by way of these two.
"""

from __future__ import annotations

import functools
import sys
from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls, thread_queues
from scalana.runtime.remote.zmq_ids import Message, bytes_of
from scalana.runtime.typed import Any, Callable, Collection, Function, Iterable, Moment

_NOWAIT, _MORE = 1, 2
"""Flags of calls: ``DONTWAIT`` and ``SNDMORE``."""
_POLLIN, _RCVMORE = 1, 13
_DEALER, _ROUTER, _STREAM = 5, 6, 11
"""Types of sockets."""
_INSIDE = ("scalana.", "zmq.sugar.", "zmq._future")
_OF_ZMQ = ("zmq.utils.", "zmq.auth.")
"""Modules of functions between a program and these; modules that have threads with sockets of their own."""
_STATE = "_scalana"
"""Where sockets have what is known of them."""
_SHORT_NS = 50_000
"""A poll for less than this found what it asked for."""
_LARGE = 1 << 20
"""Whoever waits for a message of so many bytes waits until it is copied, too."""
_BETWEEN_NS, _BETWEEN_CPU_NS = 10_000_000, 500_000
"""Who goes on to wait within so much time, and has computed no longer, has done nothing else: it is one wait."""
_MOST_POLLS = 64
"""Polls that are told with the message that comes in the end."""
patches = Patches("zmq")
_polls = _local()
"""``kept``: :class:`_Poll` of this thread after which no message has been received so far."""


class _Poll:
    """A wait for a message from one of some sockets, in one or several calls."""

    __slots__ = ("in_vain", "path", "record", "since", "sockets", "until")

    def __init__(self, sockets: frozenset[int], since: Moment, until: Moment, in_vain: bool) -> None:
        self.sockets, self.since, self.until, self.in_vain = sockets, since, until, in_vain
        self.record, self.path = session.record_path, calls.own_path()

    def goes_on(self, sockets: frozenset[int], since: Moment, until: Moment, in_vain: bool) -> bool:
        """Whether another call is a part of this wait; then it is, from now on."""
        wall, cpu = since[0] - self.until[0], since[1] - self.until[1]
        within = sockets <= self.sockets and self.record == session.record_path
        if not (within and self.in_vain and wall <= _BETWEEN_NS and cpu <= _BETWEEN_CPU_NS):
            return False
        self.sockets, self.until, self.in_vain = sockets, until, in_vain
        return True


class Link:
    """What is known of one socket."""

    __slots__ = ("awaited", "is_left_out", "may_be_named", "named", "received", "sent", "since")

    def __init__(self, kind: int) -> None:
        self.named, self.may_be_named = kind == _ROUTER, kind == _DEALER
        self.is_left_out = kind == _STREAM or _is_of_zmq()
        """It speaks to others than sockets of ZeroMQ, or serves pyzmq itself."""
        self.sent: Message | None = None
        """The frames so far of what is sent."""
        self.since: Moment | None = None
        """When sending the first of them began."""
        self.received: Message | None = None
        """Of what is received."""
        self.awaited: Callable[[tuple[int, ...]], None] | None = None
        """Tells what an event loop has waited for a message that is there now."""

    def begin(self) -> Message:
        """A message whose first frame comes next."""
        return Message(self.named, self.may_be_named)


def link_of(socket: Any) -> Link | None:
    """What is known of a socket; None where its messages are left out, or it is closed, or nothing is recorded."""
    if session.core is None:
        return None
    link: Link | None = socket.__dict__.get(_STATE)
    if link is None:
        try:
            link = socket.__dict__[_STATE] = Link(int(socket.type))
        except Exception:  # what it is asked for next says so, too
            return None
    if link.is_left_out:
        return None
    thread_queues.talks_in[0] = session.record_path
    return link


def _is_of_zmq() -> bool:
    """Whether a thread of pyzmq's own is here."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_globals.get("__name__", "").startswith(_OF_ZMQ)


def patch_sockets(module: Any) -> None:
    """Record messages; ``module`` is ``zmq.sugar.socket``."""
    get = getattr(getattr(module, "SocketBase", None), "get", None)
    if get is None:
        session.note("zmq: unsupported zmq.sugar.socket: messages are not recorded")
        return
    patches.wrap(module.Socket, "send", _send, "messages")
    for name, flags_of, frame_of in (
        ("recv", _flags_of_recv, _frame_of_recv),
        ("recv_into", _flags_of_recv_into, _frame_of_recv_into),
    ):
        if name == "recv" or hasattr(module.Socket, name):
            make = functools.partial(_receiving, get=get, flags_of=flags_of, frame_of=frame_of)
            patches.wrap(module.Socket, name, make, "messages")
    import queue

    thread_queues.patch(queue)


def patch_polls(module: Any) -> None:
    """Record waits for messages; ``module`` is ``zmq.sugar.poll``."""
    patches.wrap(module.Poller, "poll", _poll, "waits for messages")
    patches.wrap(module, "select", _select, "waits for messages")


def _send(original: Function) -> Function:
    def send(self: Any, data: Any, flags: int = 0, *args: Any, **kwargs: Any) -> Any:
        link = link_of(self)
        since = None if link is None else calls.moment()
        result = original(self, data, flags, *args, **kwargs)
        if link is not None and since is not None:
            try:
                _sent(link, data, bool(flags & _MORE), since)
            except Exception as failure:
                patches.failed("a message was not recorded", failure)
        return result

    return send


def _sent(link: Link, data: Any, more: bool, since: Moment) -> None:
    """A frame was sent."""
    message = link.sent
    if message is None:
        message, link.since = link.begin(), since
    link.sent = message if more else None
    message.add(bytes_of(data), more)
    if not more:
        copied = calls.moment() if message.nbytes >= _LARGE else None
        for one in message.ids():
            calls.was_put(one, message.nbytes, copied or link.since or since)


def _receiving(original: Function, get: Function, flags_of: Function, frame_of: Function) -> Function:
    """The same function, recorded: with what flags it is called, and what frame it has received, is told by the others,
    from its arguments."""

    def receive(self: Any, *args: Any, **kwargs: Any) -> Any:
        link = link_of(self)
        since = None if link is None else calls.moment()
        if link is None or since is None:
            return original(self, *args, **kwargs)
        waits = link.received is None and _waits(flags_of(*args, **kwargs))
        handle = calls.expect() if waits else 0
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            calls.message(handle, 0)
            if waits:
                _waited((self,), since, True)
            raise
        try:
            _received(self, link, frame_of(result, *args, **kwargs), bool(get(self, _RCVMORE)), handle, since)
        except Exception as failure:
            patches.failed("a message was not recorded", failure)
        return result

    return receive


def _flags_of_recv(flags: int = 0, *args: Any, **kwargs: Any) -> int:
    return flags


def _flags_of_recv_into(*args: Any, flags: int = 0, **kwargs: Any) -> int:
    return flags


def _frame_of_recv(frame: Any, *args: Any, **kwargs: Any) -> Any:
    return bytes_of(frame)


def _frame_of_recv_into(size: int, buffer: Any, *args: Any, nbytes: int = 0, **kwargs: Any) -> Any:
    """Of a frame that is cut off, too little is seen to know it by: nobody has sent this one."""
    frame = bytes_of(buffer)
    return frame[: min(size, nbytes or len(frame))]


def _waits(flags: int) -> bool:
    """Whether a call waits for a message, or else asks for one."""
    if flags & _NOWAIT:
        calls.asked()
    return not flags & _NOWAIT


def _received(socket: Any, link: Link, frame: Any, more: bool, handle: int, since: Moment) -> None:
    """A frame was received, for which this thread has waited from a moment on, if that has a handle."""
    message = link.received or link.begin()
    link.received = message if more else None
    message.add(frame, more)
    if more:
        calls.message(handle, 0)
        if handle:
            _waited((socket,), since, False)  # it is told with the last frame
        return
    ids = message.ids()
    polled = _tell_polls(socket, ids)
    if handle:
        calls.message(handle, *ids)
    elif not polled:
        tell_wait(ids, since, calls.moment())
    awaited, link.awaited = link.awaited, None
    if awaited is not None:
        awaited(ids)


def tell_wait(ids: tuple[int, ...], since: Moment, until: Moment | None, path: int = 0, in_vain: bool = False) -> None:
    """This thread has waited for a message that has some ids; ``path`` leads to where it did, if that is not here."""
    for one in ids if until else ():
        calls.expected(one, ((since, until),), path, in_vain)  # type: ignore[arg-type]


def _waited(sockets: Collection[Any], since: Moment, in_vain: bool) -> None:
    """This thread has waited from a moment until now for a message from one of some sockets."""
    until = calls.moment()
    if until is None or not sockets:
        return
    kept = _polls.__dict__.setdefault("kept", [])
    call = frozenset(map(id, sockets)), since, until, in_vain
    if kept and kept[-1].goes_on(*call):
        return
    if until[0] - since[0] >= _SHORT_NS:
        kept.append(_Poll(*call))
        del kept[:-_MOST_POLLS]


def _tell_polls(socket: Any, ids: tuple[int, ...]) -> bool:
    """A message was received: tell for how long it was polled for before. Whether one of these polls found it."""
    kept = getattr(_polls, "kept", None)
    found = False
    if kept:
        for poll in kept:
            if id(socket) in poll.sockets and poll.record == session.record_path:
                tell_wait(ids, poll.since, poll.until, poll.path, poll.in_vain)
                found = found or not poll.in_vain
        kept[:] = [poll for poll in kept if id(socket) not in poll.sockets]
    return found


def _poll(original: Function) -> Function:
    def poll(self: Any, timeout: Any = None) -> Any:
        since = calls.moment()
        if since is None:
            return original(self, timeout)
        if timeout == 0:
            if not hasattr(self, "_watch_raw_socket"):  # of an event loop, which has been woken
                calls.asked()
            return original(self, timeout)
        handle = calls.expect()
        try:
            ready = original(self, timeout)
        finally:
            calls.message(handle, 0)
        patches.tried("a wait for messages was not recorded", lambda: _polled(self.sockets, ready, since))
        return ready

    return poll


def _polled(asked: Iterable[tuple[Any, int]], ready: Iterable[tuple[Any, int]], since: Moment) -> None:
    """A poll is over: what was asked for, and what is there."""
    came = [socket for socket, events in ready if events & _POLLIN]
    if came or not ready:
        sockets = came or [socket for socket, events in asked if events & _POLLIN]
        _waited([socket for socket in sockets if hasattr(socket, "recv_multipart")], since, not came)


def _select(original: Function) -> Function:
    def select(rlist: Any, wlist: Any, xlist: Any, timeout: Any = None) -> Any:
        since = calls.moment()
        if since is None:
            return original(rlist, wlist, xlist, timeout)
        if timeout == 0:
            calls.asked()
            return original(rlist, wlist, xlist, timeout)
        handle = calls.expect()
        try:
            ready = original(rlist, wlist, xlist, timeout)
        finally:
            calls.message(handle, 0)

        def record() -> None:
            asked, came = ([(socket, _POLLIN) for socket in sockets] for sockets in (rlist, ready[0]))
            if came or not any(ready):
                _polled(asked, came, since)

        patches.tried("a wait for messages was not recorded", record)
        return ready

    return select
