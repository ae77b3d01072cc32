"""Records that an event loop of :mod:`asyncio` waits for messages of ZeroMQ (``zmq.asyncio``).

Sockets of a loop receive by an ordinary one that they have, without waiting, once the loop was woken. What the loop
waited since something began to await a message of a socket is told with the message.
"""

from __future__ import annotations

from weakref import ref

from scalana.runtime import session
from scalana.runtime.remote import calls, event_loops, thread_queues
from scalana.runtime.remote.zmq_sockets import link_of, patches, tell_wait
from scalana.runtime.typed import Any, Function


def patch(module: Any) -> None:
    """Record waits of event loops; ``module`` is ``zmq._future``."""
    patches.wrap(module._AsyncSocket, "_add_recv_event", _add_recv_event, "waits of event loops")
    import asyncio

    thread_queues.patch_coroutines(asyncio)


def _add_recv_event(original: Function) -> Function:
    def add_recv_event(self: Any, *args: Any, **kwargs: Any) -> Any:
        future = original(self, *args, **kwargs)
        if session.core is not None and not future.done():
            patches.tried("a wait of an event loop is not recorded", lambda: _await(self))
        return future

    return add_recv_event


def _await(socket: Any) -> None:
    """From now on something awaits a message of a socket, if it does not do so already."""
    link = link_of(socket._shadow_sock)
    waits = None if link is None or link.awaited is not None else event_loops.waits_here()
    if waits is not None:
        known = ref(socket)  # sockets close when nobody has them any more
        waits.files[socket._fd] = lambda: _is_awaited(known())
        _await_from(known, link, ref(waits), calls.own_path(), session.record_path)


def _is_awaited(socket: Any) -> bool:
    """Whether something awaits a message of a socket, or room in it."""
    awaited = () if socket is None or socket.closed else (*socket._recv_futures, *socket._send_futures)
    return any(not event.future.done() for event in awaited)


def _await_from(socket: Any, link: Any, waits: Any, path: int, record: str) -> None:
    """Let what the loop waits from now on be told with the next message; ``socket`` and ``waits`` are references."""
    began = calls.moment()

    def tell(ids: tuple[int, ...]) -> None:
        loop = waits()
        if record != session.record_path or began is None or loop is None:
            return
        for since, until in loop.claim(began):
            tell_wait(ids, since, until, path)
        if _is_awaited(socket()):
            _await_from(socket, link, waits, path, record)

    link.awaited = tell
