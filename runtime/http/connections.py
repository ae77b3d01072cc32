"""Connections of HTTP, as both of their ends know them: the addresses of both, and how many requests there were.

Nothing is added to what goes over the wire. A connection answers one request after the other, so that the so manieth is
the same for both ends. A request is a call (:mod:`scalana.runtime.remote.calls`) with two results: the head of its
answer, and all of it, under the id of the call itself.
"""

from __future__ import annotations

import os
import sys
from _thread import _local, get_ident

from scalana.runtime import session
from scalana.runtime.remote import calls, part
from scalana.runtime.remote.coroutines import write_rests
from scalana.runtime.typed import Any

SHORT_NS = 50_000
"""Who reads for less than this had the data there."""
_HEAD = 1
"""Piece of an answer."""
_FLUSH_NS = 2_000_000
_MAPPED = "::ffff:"
"""Before an address of IPv4 that a socket of IPv6 tells."""
_MOST_SERVERS = 1000
"""Servers that have a number of their own in the record."""
_OTHER_SERVERS = _MOST_SERVERS + 1
_servers: dict[tuple[str, str, int], int] = {}
"""Number of each, by the record, its host and its port."""
_threads = _local()
"""``under_way``: connections whose requests this thread has begun with and not answered."""


def key_of(client: Any, server: Any) -> int:
    """What a connection is known by at both ends, by the addresses that sockets tell; 0 where they have none.

    >>> key_of(("10.0.0.1", 4000), ("10.0.0.2", 80)) == key_of(("::ffff:10.0.0.1", 4000, 0, 0), ("10.0.0.2", 80))
    True
    >>> key_of("", "/run/server.socket")
    0
    """
    if not (isinstance(client, tuple) and isinstance(server, tuple)):
        return 0
    ends = [(_plain(str(host)), int(port)) for host, port in (client[:2], server[:2])]
    # Each host has such addresses of its own.
    home = os.uname().nodename if any(host.startswith("127.") or host == "::1" for host, _ in ends) else ""
    return calls.id_of(repr((home, *ends)).encode())


def _plain(host: str) -> str:
    return host.removeprefix(_MAPPED).partition("%")[0]


def number_of(server: Any) -> int:
    """The number of a server in this record, which tells its name: ``host:port``, or the path of its socket."""
    host, port = (str(server[0]), int(server[1])) if isinstance(server, tuple) else (str(server), 0)
    known = session.record_path, host, port
    number = _servers.get(known, 0)
    if not number and session.core is not None:
        if len(_servers) >= _MOST_SERVERS:
            return _OTHER_SERVERS
        number = _servers[known] = len(_servers) + 1
        host = _plain(host)
        name = f"[{host}]" if ":" in host else host
        session.core.meta(f"server {number}", f"{name}:{port}" if port else name)
    return number


class Requests:
    """The requests of a client over one connection, one after the other."""

    __slots__ = ("_count", "_ends", "_key", "awaited", "call", "has_head", "server")

    def __init__(self) -> None:
        self._ends: tuple[Any, Any, str] | None = None
        """The addresses of both, and the record in which the server has its number."""
        self._key, self._count = 0, 0
        self.call = 0
        """The request that was sent last."""
        self.server = 0
        """Number of the server that answers it."""
        self.has_head = True
        """Whether its answer has begun."""
        self.awaited: Any = None
        """What an event loop waits for in it."""

    def sent(self, since: tuple[int, int] | None, client: Any, server: Any) -> None:
        """A request was sent between addresses that sockets tell, from a moment on."""
        ends = client, server, session.record_path
        if self._ends != ends:
            if self._ends is None or self._ends[:2] != ends[:2]:
                self._key, self._count = key_of(client, server), 0
            self._ends, self.server = ends, number_of(server)
        self._count += 1
        self.call = calls.mixed(self._key, self._count) if self._key else calls.new_id()
        self.has_head = False
        if since is not None:
            _ask()
            calls.submitted(self.call, since, takes_part=False)

    @property
    def expected(self) -> int:
        """The id of what comes next: the head of the answer, or its end."""
        return self.call if self.has_head else calls.mixed(self.call, 0, _HEAD)


class Answers:
    """The requests that a server gets over one connection, and its answers."""

    __slots__ = ("_call", "_count", "_has_head", "_key", "_thread")

    def __init__(self, client: Any, server: Any) -> None:
        self._key, self._count = key_of(client, server), 0
        self._call, self._has_head, self._thread = 0, False, 0

    def begin(self) -> None:
        """A request is there, and this thread begins with it."""
        self.end()
        self._count += 1
        if not self._key or session.core is None:
            return
        _ask()
        self._call, self._has_head, self._thread = calls.mixed(self._key, self._count), False, get_ident()
        _under_way().add(id(self))
        calls.took(self._call, takes_part=False)

    def head(self) -> None:
        """The answer begins."""
        if self._call and not self._has_head:
            self._has_head = True
            calls.reply(calls.mixed(self._call, 0, _HEAD), rests=False, takes_part=False)

    def end(self) -> None:
        """It is given, or nobody is there any more that waits for it."""
        if self._call:
            self.head()
            call, self._call = self._call, 0
            under_way = _under_way()
            under_way.discard(id(self))
            calls.reply(call, rests=not under_way and self._thread == get_ident(), takes_part=False)
            # Servers are ended by a signal, which leaves no time for it.
            write_rests()
            calls.flush(_FLUSH_NS)


def _under_way() -> set[int]:
    known: set[int] | None = getattr(_threads, "under_way", None)
    if known is None:
        known = _threads.under_way = set()
    return known


_serves = [""]
"""The record in which it was said that the main thread of this process serves."""


def serve_here() -> None:
    """This thread begins to serve."""
    threading: Any = sys.modules.get("threading")
    if threading is not None and threading.current_thread() is threading.main_thread():
        _serves[0] = session.record_path


def _ask() -> None:
    if session.core is not None:
        part.ask(bool(_serves[0]) and _serves[0] == session.record_path)


def _forget() -> None:
    """A process was forked."""
    _servers.clear()
    if hasattr(_threads, "under_way"):
        del _threads.under_way


session.when_started(_forget)
