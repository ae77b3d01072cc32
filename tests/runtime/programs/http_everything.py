"""Asks several servers in this process, by several clients, and prints all that it sees of that."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
import traceback
import urllib.request
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import aiohttp.web
import httpx
import uvicorn

BODY = b"x" * 100
SLOW_S = 0.4
RECORDER = Path(str(find_spec("scalana.runtime").origin)).parent


class Handler(BaseHTTPRequestHandler):
    """Answers in two parts, of connections that stay."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(SLOW_S)
        self.send_response(200)
        self.send_header("Content-Length", str(2 * len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)
        time.sleep(0.02)
        self.wfile.write(BODY)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""

    def handle_error(self) -> None:
        """Nothing."""


class Short(Handler):
    """A connection for each request."""

    protocol_version = "HTTP/1.0"


class Threads(ThreadingHTTPServer):
    """Whose clients may go away."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/error":
        raise ValueError("told by the server")
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", str(2 * len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY, "more_body": True})
    await asyncio.sleep(SLOW_S if scope["path"] == "/slow" else 0.02)
    await send({"type": "http.response.body", "body": BODY})


async def answer(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
    await request.read()
    response = aiohttp.web.StreamResponse()
    response.content_length = 2 * len(BODY)
    await response.prepare(request)
    await response.write(BODY)
    await asyncio.sleep(SLOW_S if request.path == "/slow" else 0.02)
    await response.write(BODY)
    return response


def listening() -> socket.socket:
    opened = socket.socket()
    opened.bind(("127.0.0.1", 0))
    opened.listen()
    return opened


def in_thread(function: Any) -> None:
    threading.Thread(target=function, daemon=True).start()


def serve_plainly(kind: type[HTTPServer], handler: type[Handler]) -> int:
    server = kind(("127.0.0.1", 0), handler)
    in_thread(server.serve_forever)
    return int(server.server_address[1])


def serve_uvicorn(how: str) -> int:
    opened = listening()
    config = uvicorn.Config(asgi, log_level="critical", lifespan="off", http=how, loop="asyncio")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    in_thread(lambda: server.run([opened]))
    return int(opened.getsockname()[1])


def serve_aiohttp() -> int:
    opened = listening()

    async def serve() -> None:
        application = aiohttp.web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        runner = aiohttp.web.AppRunner(application)
        await runner.setup()
        await aiohttp.web.SockSite(runner, opened).start()
        await asyncio.Event().wait()

    in_thread(lambda: asyncio.run(serve()))
    return int(opened.getsockname()[1])


def ask_plainly(port: int) -> list[int]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    lengths = []
    for number in range(3):
        connection.request("POST", f"/{number}", BODY)
        lengths.append(len(connection.getresponse().read()))
    connection.close()
    return lengths


def ask_urllib(port: int) -> list[int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as response:
        return [len(response.read(7)), len(response.read())]


def ask_httpx(port: int) -> list[int]:
    with httpx.Client() as client:
        return [len(client.post(f"http://127.0.0.1:{port}/{number}", content=BODY).content) for number in range(3)]


async def ask_httpx_async(port: int) -> list[int]:
    async with httpx.AsyncClient() as client:
        urls = [f"http://127.0.0.1:{port}/{number}" for number in range(3)]
        answers = [*await asyncio.gather(*map(client.get, urls)), await client.get(urls[0])]
        return [len(answer.content) for answer in answers]


async def ask_aiohttp(port: int) -> list[int]:
    async with aiohttp.ClientSession() as session:

        async def get(number: int) -> int:
            async with session.get(f"http://127.0.0.1:{port}/{number}") as response:
                return len(await response.read())

        return [*await asyncio.gather(*map(get, range(3))), await get(3)]


async def stream(port: int) -> AsyncIterator[int]:
    async with httpx.AsyncClient() as client, client.stream("GET", f"http://127.0.0.1:{port}/") as response:
        async for piece in response.aiter_raw():
            yield len(piece)


async def all_pieces(port: int) -> list[int]:
    return [sum([piece async for piece in stream(port)])]


def fail(name: str, function: Any) -> None:
    """Print that something fails, and how many frames of a recorder its traceback shows: the line at which a client
    gives up depends on the machine."""
    try:
        print(name, function())
    except Exception as failure:
        frames = traceback.extract_tb(failure.__traceback__)
        print(name, "fails", sum(RECORDER in Path(frame.filename).parents for frame in frames))


async def give_up(port: int) -> int:
    async with httpx.AsyncClient(timeout=0.1) as client:
        return (await client.get(f"http://127.0.0.1:{port}/slow")).status_code


async def give_up_aiohttp(port: int) -> int:
    limit = aiohttp.ClientTimeout(total=0.1)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(f"http://127.0.0.1:{port}/slow") as answer:
        return len(await answer.read())


def closed_port() -> int:
    with listening() as opened:
        return int(opened.getsockname()[1])


def main() -> None:
    servers = {
        "threads": serve_plainly(Threads, Handler),
        "one by one": serve_plainly(HTTPServer, Short),
        "h11": serve_uvicorn("h11"),
        "aiohttp": serve_aiohttp(),
    }
    for name, port in servers.items():
        for ask in (ask_plainly, ask_urllib, ask_httpx):
            print(name, ask.__name__, ask(port))
        for wait in (ask_httpx_async, ask_aiohttp, all_pieces):
            print(name, wait.__name__, asyncio.run(wait(port)))
    for name in ("threads", "h11", "aiohttp"):
        port = servers[name]
        fail("plain", lambda port=port: urllib.request.urlopen(f"http://127.0.0.1:{port}/slow", timeout=0.1).read())
        fail("httpx", lambda port=port: httpx.get(f"http://127.0.0.1:{port}/slow", timeout=0.1))
        fail("httpx, async", lambda port=port: asyncio.run(give_up(port)))
        fail("aiohttp", lambda port=port: asyncio.run(give_up_aiohttp(port)))
    fail("error", lambda: httpx.get(f"http://127.0.0.1:{servers['h11']}/error").status_code)
    nobody = closed_port()
    fail("nobody", lambda: urllib.request.urlopen(f"http://127.0.0.1:{nobody}/"))
    fail("nobody", lambda: httpx.get(f"http://127.0.0.1:{nobody}/"))
    time.sleep(3 * SLOW_S)  # what was given up is answered


main()
