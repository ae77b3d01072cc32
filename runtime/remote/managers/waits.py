"""Records what processes wait for by way of a Manager of :mod:`multiprocessing`: messages of its queues, and signals.

A message of a queue goes through the process of the Manager: a thread there takes it out of one request, and another
one answers a request with it. Its id goes with the pickle of the first request, stays with the object in between, and
goes with the pickle of the answer. Who waits for a signal (an event, a barrier, the end of a queue) waits for who gave
it last.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.remote import calls, queues
from scalana.runtime.typed import Any

_PUTS, _GETS = frozenset(("put", "put_nowait")), frozenset(("get", "get_nowait"))
_LOOKS = frozenset(("empty", "qsize"))
"""Methods of queues by which one asks whether a message is there."""
SIGNALS = (
    ("is_set", frozenset(("set",)), frozenset(("wait",))),
    ("abort", frozenset(("wait",)), frozenset(("wait",))),
    ("task_done", frozenset(("task_done",)), frozenset(("join",))),
)
"""A method by which a type of objects is known (events, barriers, queues), the methods that give a signal, and those
that wait for it."""
_ID = "_scalana_id"
"""Where a proxy has the id of what it stands for."""
_ROOM, _SIGNAL = 1, 2
BOUNDED = 1 << 63
"""Set in what goes with the answer of a queue that may have no room; ids are below it."""
_MOST_IN_QUEUES = 100_000
"""Messages whose ids the process of a Manager keeps. It forgets all where more are left: somebody takes them otherwise.
"""
_in_queues: dict[tuple[str, int], list[int]] = {}
"""In the process of a Manager, the ids of what its queues hold, by the queue and the address of the object."""


class Roles:
    """What the methods of a type of proxies do; ``waits``: whether one may wait in some of them."""

    __slots__ = ("awaiting", "giving", "is_queue", "waits")

    def __init__(self, kind: type) -> None:
        signals = [row for row in SIGNALS if hasattr(kind, row[0])]
        self.is_queue = hasattr(kind, "get_nowait") and hasattr(kind, "put_nowait")
        self.giving = frozenset(name for row in signals for name in row[1])
        self.awaiting = frozenset(name for row in signals for name in row[2])
        # Locks, and what a pool in a Manager returns.
        others = ("release", "apply_async", "ready", "__next__")
        self.waits = self.is_queue or bool(signals) or any(hasattr(kind, name) for name in others)


class InRequest(queues.Carrier):
    """Sends an id with one request of a proxy, but not with what opens its connection; ``received`` came with the
    answer."""

    __slots__ = ("args", "message", "received")

    def __init__(self, args: Any, message: int) -> None:
        self.args, self.message, self.received = args, message, 0

    def goes(self, obj: Any) -> int:
        """Its own, with the request."""
        return self.message if type(obj) is tuple and len(obj) == 4 and obj[2] is self.args else 0

    def came(self, obj: Any, message: int) -> None:
        """The answer is what comes last."""
        self.received = message


class InManager(queues.Carrier):
    """In a thread of a Manager that serves one client: keeps the ids of messages as long as they are in a queue.
    ``objects`` are what it manages, by their names, each the first of several in an entry."""

    __slots__ = ("_asked", "_objects", "_put")

    def __init__(self, objects: Any) -> None:
        self._objects, self._asked = objects, ""
        self._put: tuple[tuple[str, int], int] | None = None

    def came(self, obj: Any, message: int) -> None:
        """A request has."""
        self._asked, self._put = "", None
        if type(obj) is not tuple or len(obj) != 4:
            return
        queue, method, args, by_name = obj
        if message and method in _PUTS:
            item = args[0] if args else by_name.get("item")
            self._put = (queue, id(item)), message
            if len(_in_queues) >= _MOST_IN_QUEUES:
                _in_queues.clear()
            _in_queues.setdefault(self._put[0], []).append(message)
        elif method in _GETS:
            self._asked = queue

    def goes(self, obj: Any) -> int:
        """The id of the message that an answer has, if there is one, and whether its queue has a bound."""
        asked, put, self._asked, self._put = self._asked, self._put, "", None
        if type(obj) is not tuple or len(obj) != 2:
            return 0
        kind, result = obj
        if put is not None:
            if kind != "#RETURN":  # there was no room
                _take(*put)
            return self._bound(put[0][0])
        if not asked or kind != "#RETURN":
            return 0
        return _take((asked, id(result))) | self._bound(asked)

    def _bound(self, queue: str) -> int:
        entry = self._objects.get(queue)
        return BOUNDED if entry and getattr(entry[0], "maxsize", 0) > 0 else 0


def _take(where: tuple[str, int], message: int = 0) -> int:
    """The id of what a queue gives now, the first with this object, 0 for none; or ``message``, which it did not
    take."""
    ids = _in_queues.get(where)
    if not ids or (message and message not in ids):
        return 0
    taken = ids.pop(ids.index(message) if message else 0)
    if not ids:
        _in_queues.pop(where, None)
    return taken


class Request:
    """A request that has to do with waiting, from its begin to its answer."""

    __slots__ = ("args", "before", "by_name", "carrier", "handle", "method", "proxy", "roles", "since")

    def __init__(self, roles: Roles, proxy: Any, method: str, args: Any, by_name: Any) -> None:
        self.roles, self.proxy, self.method, self.args, self.by_name = roles, proxy, method, args, by_name
        self.handle, self.carrier = 0, InRequest(args, 0)
        self.since = calls.moment()
        if roles.is_queue and method in _PUTS:
            self.carrier.message = calls.new_id()
        elif roles.is_queue and method in _GETS:
            if not self._waits():
                calls.asked()
            self.handle = calls.expect()
        if method in roles.giving:
            calls.put(self._id(_SIGNAL))
        if method in roles.awaiting:
            self.handle = calls.wait(self._id(_SIGNAL))
        self.before = queues.carry(self.carrier)

    def answered(self, result: Any, failed: bool) -> None:
        """It is over."""
        queues.carry(self.before)
        if self.method in self.roles.awaiting:
            calls.got(self.handle, self._id(_SIGNAL))
        elif not self.roles.is_queue:
            return
        elif self.method in _PUTS and not failed and self.since is not None:
            calls.was_put(self.carrier.message, 0, self.since)
            if self.carrier.received & BOUNDED:
                calls.blocked(self._id(_ROOM), self.since)
        elif self.method in _GETS:
            self._got(failed)
        elif self.method in _LOOKS and not failed and result == (self.method == "empty"):
            calls.asked()

    def _waits(self) -> bool:
        return self.method != "get_nowait" and queues.waits(self.args, self.by_name)

    def _got(self, failed: bool) -> None:
        message = 0 if failed else self.carrier.received & ~BOUNDED
        calls.message(self.handle, message)
        if not failed:
            queues.came_after_all(self._id(), message)
            if self.carrier.received & BOUNDED:
                calls.gave_room(self._id(_ROOM), self.since)
        elif self._waits():
            queues.waited_in_vain(self._id(), self.since)

    def _id(self, what: int = 0) -> int:
        """Of what the proxy stands for, the same in all processes; ``what``: of one part of it."""
        known = self.proxy.__dict__.get(_ID)
        if known is None:
            token = self.proxy._token
            known = self.proxy.__dict__[_ID] = calls.id_of(f"{token.address}:{token.id}".encode())
        return calls.mixed(known, what) if what else int(known)


_roles: dict[type, Roles] = {}
_MOST_TYPES = 1000


def roles_of(kind: type) -> Roles:
    """What the methods of a type of proxies do."""
    known = _roles.get(kind)
    if known is None:
        if len(_roles) >= _MOST_TYPES:
            _roles.clear()
        known = _roles[kind] = Roles(kind)
    return known


def serve(arguments: tuple[Any, ...]) -> bool:
    """A thread of a Manager begins to serve a client."""
    queues.carry(InManager(arguments[0].id_to_obj))
    return True


def served(state: bool, arguments: tuple[Any, ...], result: Any, failure: type[BaseException] | None) -> None:
    """It has."""
    queues.carry(None)


session.when_started(_in_queues.clear)
