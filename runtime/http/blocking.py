"""Clients of HTTP that block while they wait: :mod:`http.client`, and so urllib3, requests and urllib; httpcore, and so
httpx."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.http.connections import SHORT_NS, Requests
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Failure, Moment

_patches = Patches("http")
_OF = "_scalana_requests"
"""Attribute of a connection, and of what its answers are read from."""


def patch_client(module: Any) -> None:
    """Record requests; ``module`` is ``http.client``."""
    connection = module.HTTPConnection
    _patches.surround(connection, "endheaders", _before_sending, _has_sent, "requests")
    _patches.surround(connection, "getresponse", _begin_waiting, _has_response, "waits for answers")
    _patches.surround(module.socket.SocketIO, "readinto", _begin_reading, _has_read, "waits for the rest of answers")


def patch_httpcore(module: Any) -> None:
    """The same of ``httpcore._sync.http11``."""
    connection = module.HTTP11Connection
    _patches.surround(connection, "_send_request_headers", send, nothing_after, "requests of httpcore")
    _patches.surround(connection, "_receive_response_headers", _begin_waiting, _has_head, "heads of answers")
    _patches.surround(connection, "_receive_event", _begin_reading, _has_read, "waits for answers of httpcore")


def requests_of(connection: Any) -> Requests:
    """The requests over a connection."""
    known = connection.__dict__.get(_OF)
    if known is None:
        known = Requests()
        setattr(connection, _OF, known)
    return known  # type: ignore[no-any-return]


def nothing_after(state: Any, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """There is nothing to do."""


def _before_sending(arguments: tuple[Any, ...]) -> Moment | None:
    return calls.moment()  # before it connects: the server may begin before we are back


def _has_sent(since: Moment | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if since is not None and failure is None:
        try:
            socket = arguments[0].sock
            requests_of(arguments[0]).sent(since, socket.getsockname(), socket.getpeername())
        except Exception as trouble:
            _patches.failed("a request", trouble)


def _begin_waiting(arguments: tuple[Any, ...]) -> int:
    requests = arguments[0].__dict__.get(_OF)
    if requests is None or requests.has_head or session.core is None:
        return 0
    return calls.wait(requests.expected, requests.server)


def _has_response(handle: int, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if handle:
        requests = requests_of(arguments[0])
        calls.got(handle, requests.expected)
        requests.has_head = True
        try:
            source = getattr(getattr(result, "fp", None), "raw", None)
            if source is not None:
                setattr(source, _OF, requests)
        except Exception as trouble:
            _patches.failed("the rest of an answer", trouble)


def send(arguments: tuple[Any, ...]) -> None:
    """A request is about to be sent over a connection of httpcore."""
    since = calls.moment()
    if since is not None:
        try:
            stream = arguments[0]._network_stream
            addresses = stream.get_extra_info("client_addr"), stream.get_extra_info("server_addr")
            requests_of(arguments[0]).sent(since, *addresses)
        except Exception as trouble:
            _patches.failed("a request of httpcore", trouble)


def _has_head(handle: int, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if handle:
        requests = requests_of(arguments[0])
        calls.got(handle, requests.expected)
        requests.has_head = True


def _begin_reading(arguments: tuple[Any, ...]) -> Moment | None:
    requests = arguments[0].__dict__.get(_OF)
    return calls.moment() if requests is not None and requests.has_head else None


def _has_read(since: Moment | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if since is not None:
        until = calls.moment()
        if until is not None and until[0] - since[0] >= SHORT_NS:
            requests = requests_of(arguments[0])
            calls.waited(requests.call, since, until, server=requests.server)
