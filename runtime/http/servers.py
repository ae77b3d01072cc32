"""Servers of HTTP: :mod:`http.server`, and so werkzeug and Flask; uvicorn, and so FastAPI and Starlette; aiohttp."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.http.connections import Answers, serve_here
from scalana.runtime.patching import Patches
from scalana.runtime.remote.coroutines import TICKS
from scalana.runtime.typed import Any, Callable, Failure

_patches = Patches("http")
_OF = "_scalana_answers"
_connections: dict[int, Answers] = {}
"""Of event loops, by the address of the protocol: as long as the connection is there."""


def patch_server(module: Any) -> None:
    """Record requests; ``module`` is ``http.server``."""
    handler = module.BaseHTTPRequestHandler
    _patches.surround(handler, "parse_request", _nothing, _has_parsed, "requests to servers")
    _patches.surround(handler, "end_headers", _give_head, _leave, "answers of servers")
    _patches.surround(handler, "handle_one_request", _nothing, _has_handled, "answers of servers")
    # What these inherit is not theirs: a method of their own would come before those of other bases.
    home = getattr(module, "socketserver", None)
    stream, base = (getattr(home, name, None) for name in ("StreamRequestHandler", "BaseServer"))
    _patches.surround(stream, "finish", _finish, _leave, "answers of servers")

    def serve(arguments: tuple[Any, ...]) -> None:
        if isinstance(arguments[0], module.HTTPServer):
            _serve(arguments)

    _patches.surround(base, "serve_forever", serve, _leave, "which processes are servers")


def patch_werkzeug(module: Any) -> None:
    """The same of ``werkzeug.serving``, whose handler handles requests in a way of its own."""
    _patches.surround(module.WSGIRequestHandler, "run_wsgi", _nothing, _has_handled, "answers of werkzeug")


def patch_uvicorn(module: Any) -> None:
    """The same of ``uvicorn.protocols.http.h11_impl`` and ``httptools_impl``."""
    for name in ("H11Protocol", "HttpToolsProtocol"):
        protocol = getattr(module, name, None)
        if protocol is not None:
            _patches.surround(protocol, "connection_made", _nothing, _is_made, "requests to uvicorn")
            _patches.surround(protocol, "connection_lost", _lose, _leave, "requests to uvicorn")
    _patches.surround(module.RequestResponseCycle, "run_asgi", _run_asgi, _leave, "requests to uvicorn")
    _patches.surround(module.RequestResponseCycle, "send", _send_asgi, _leave, "answers of uvicorn")


def patch_uvicorn_server(module: Any) -> None:
    """Know a server of uvicorn when it is ready; ``module`` is ``uvicorn.server``."""
    ticks = getattr(getattr(module.Server, "main_loop", None), "__code__", None)
    if ticks is not None:
        TICKS.add(ticks)
    _patches.surround(module.Server, "main_loop", _serve, _leave, "which processes are servers")


def patch_aiohttp_sites(module: Any) -> None:
    """The same of ``aiohttp.web_runner``."""
    _patches.surround(module.BaseSite, "start", _serve, _leave, "which processes are servers")


def patch_aiohttp(module: Any) -> None:
    """The same of ``aiohttp.web_protocol``."""
    handler = module.RequestHandler
    _patches.surround(handler, "connection_made", _nothing, _is_made, "requests to aiohttp")
    _patches.surround(handler, "connection_lost", _lose, _leave, "requests to aiohttp")
    _patches.surround(handler, "_handle_request", _begin_of_loop, _leave, "requests to aiohttp")
    _patches.surround(handler, "finish_response", _end_of_loop, _leave, "answers of aiohttp")


def patch_aiohttp_responses(module: Any) -> None:
    """The same of ``aiohttp.web_response``."""
    _patches.surround(module.StreamResponse, "prepare", _prepare, _leave, "answers of aiohttp")


def _nothing(arguments: tuple[Any, ...]) -> None:
    """What is recorded is recorded when it is done."""


def _leave(state: Any, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """It was recorded before it was done."""


def _tried(answers: Answers | None, function: Callable[[Answers], None]) -> None:
    if answers is not None:
        _patches.tried("an answer", lambda: function(answers))


def _serve(arguments: tuple[Any, ...]) -> None:
    if session.core is not None:
        _patches.tried("which processes are servers", serve_here)


def _has_parsed(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if result and session.core is not None:
        _patches.tried("a request", lambda: _begin(arguments[0]))


def _begin(handler: Any) -> None:
    answers = handler.__dict__.get(_OF)
    if answers is None:
        connection = handler.connection
        answers = Answers(connection.getpeername(), connection.getsockname())
        setattr(handler, _OF, answers)
    answers.begin()


def _give_head(arguments: tuple[Any, ...]) -> None:
    _tried(arguments[0].__dict__.get(_OF), Answers.head)


def _has_handled(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    _tried(arguments[0].__dict__.get(_OF), Answers.end)


def _finish(arguments: tuple[Any, ...]) -> None:
    _tried(arguments[0].__dict__.get(_OF), Answers.end)


def _is_made(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """A protocol has a connection, over a transport."""
    if session.core is not None:

        def know() -> None:
            tell = arguments[1].get_extra_info
            _connections[id(arguments[0])] = Answers(tell("peername"), tell("sockname"))
            serve_here()

        _patches.tried("requests over a connection", know)


def _lose(arguments: tuple[Any, ...]) -> None:
    _tried(_connections.pop(id(arguments[0]), None), Answers.end)


def _begin_of_loop(arguments: tuple[Any, ...]) -> None:
    _tried(_connections.get(id(arguments[0])), Answers.begin)


def _end_of_loop(arguments: tuple[Any, ...]) -> None:
    _tried(_connections.get(id(arguments[0])), Answers.end)


def _of_cycle(cycle: Any) -> Answers | None:
    """The connection over which uvicorn's request came."""
    return _connections.get(id(getattr(cycle.on_response, "__self__", None)))


def _run_asgi(arguments: tuple[Any, ...]) -> None:
    _tried(_of_cycle(arguments[0]), Answers.begin)


def _send_asgi(arguments: tuple[Any, ...]) -> None:
    answers = _of_cycle(arguments[0]) if len(arguments) > 1 else None
    if answers is not None:

        def give() -> None:
            message = arguments[1]
            if message.get("type") == "http.response.start":
                answers.head()
            elif message.get("type") == "http.response.body" and not message.get("more_body"):
                answers.end()

        _patches.tried("an answer", give)


def _prepare(arguments: tuple[Any, ...]) -> None:
    if len(arguments) > 1:
        _tried(_connections.get(id(getattr(arguments[1], "protocol", None))), Answers.head)


def _forget() -> None:
    """A process was forked: its connections are another one's."""
    _connections.clear()


session.when_started(_forget)
