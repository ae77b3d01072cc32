"""Clients of HTTP in event loops of :mod:`asyncio`: httpcore, and so httpx; aiohttp.

A loop waits in its selector, for whatever comes first: what it waited there from when somebody began to wait for an
answer until there was some of it (:mod:`scalana.runtime.remote.event_loops`).
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.http.blocking import nothing_after, requests_of, send
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls
from scalana.runtime.remote.event_loops import Awaited
from scalana.runtime.typed import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.http.connections import Requests

_OF = "_scalana_requests"
_patches = Patches("http")


def patch_httpcore(module: Any) -> None:
    """Record requests; ``module`` is ``httpcore._async.http11``."""
    connection = module.AsyncHTTP11Connection
    _patches.surround(connection, "_send_request_headers", _send, nothing_after, "requests of httpcore")
    _patches.surround(connection, "_receive_event", _await_event, nothing_after, "waits for answers of httpcore")
    _patches.surround(connection, "_response_closed", _close, nothing_after, "waits for answers of httpcore")
    _patches.surround(module.h11.Connection, "receive_data", _receive, nothing_after, "waits for answers of httpcore")


def patch_aiohttp(module: Any) -> None:
    """The same of ``aiohttp.client_reqrep``."""
    _patches.surround(module.ClientRequest, "send", _send_aiohttp, nothing_after, "requests of aiohttp")
    _patches.surround(module.ClientResponse, "start", _await_response, nothing_after, "waits for answers of aiohttp")


def patch_aiohttp_streams(module: Any) -> None:
    """The same of ``aiohttp.streams``."""
    _patches.surround(module.StreamReader, "_wait", _await_rest, nothing_after, "waits for answers of aiohttp")


def patch_aiohttp_protocol(module: Any) -> None:
    """The same of ``aiohttp.client_proto``."""
    handler = module.ResponseHandler
    _patches.surround(handler, "data_received", _receive, nothing_after, "waits for answers of aiohttp")
    _patches.surround(handler, "connection_lost", _lose, nothing_after, "waits for answers of aiohttp")


def _wait_for(requests: Requests) -> None:
    """A coroutine is about to wait for the next part of an answer."""
    if session.core is not None and requests.call:
        _over(requests)
        requests.awaited = Awaited()


def _over(requests: Requests) -> None:
    """That is there, or is not waited for any more."""
    awaited, requests.awaited = requests.awaited, None
    if awaited is not None:
        awaited.over(requests.expected, requests.server)
        requests.has_head = True


def _tried(arguments: tuple[Any, ...], function: Any) -> None:
    """Do something with the requests over a connection, if there are any."""
    requests = getattr(arguments[0], "__dict__", {}).get(_OF)
    if requests is not None:
        _patches.tried("waits for answers", lambda: function(requests))


def _send(arguments: tuple[Any, ...]) -> None:
    send(arguments)
    if _OF in arguments[0].__dict__:
        # What tells that data came.
        arguments[0]._h11_state._scalana_requests = requests_of(arguments[0])


def _await_event(arguments: tuple[Any, ...]) -> None:
    _tried(arguments, _wait_for)


def _close(arguments: tuple[Any, ...]) -> None:
    _tried(arguments, _over)


_receive = _lose = _close


def _send_aiohttp(arguments: tuple[Any, ...]) -> None:
    since = calls.moment()
    if since is not None:
        try:
            protocol = arguments[1].protocol
            transport = protocol.transport
            addresses = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
            requests_of(protocol).sent(since, *addresses)
        except Exception as trouble:
            _patches.failed("a request of aiohttp", trouble)


def _await_response(arguments: tuple[Any, ...]) -> None:
    _tried((arguments[1].protocol,), _wait_for)


def _await_rest(arguments: tuple[Any, ...]) -> None:
    _tried((getattr(arguments[0], "_protocol", None),), _wait_for)
