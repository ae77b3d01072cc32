"""What recording requests by HTTP costs: us of wall-clock time of a small one, best of several rounds in turns.

Run: python tests/benchmarks/http_cost.py [REQUESTS]

A client and its server are processes of their own, recorded and not; 5,000 requests one after the other by default.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

ROUNDS = 3


def serve_threads() -> None:
    """Answer by http.server."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        """Answers at once."""

        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def serve_uvicorn() -> None:
    """Answer by uvicorn."""
    import socket

    import uvicorn

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(application, log_level="error", lifespan="off", http="h11", loop="asyncio")
    uvicorn.Server(config).run([listening])


def ask_http_client(port: int, requests: int) -> float:
    """Ask by http.client."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port)
    begin = time.perf_counter()
    for _ in range(requests):
        connection.request("GET", "/")
        connection.getresponse().read()
    return time.perf_counter() - begin


def ask_httpx(port: int, requests: int) -> float:
    """Ask by httpx, 16 at a time."""
    import httpx

    async def some(client: Any) -> None:
        for _ in range(requests // 16):
            (await client.get(f"http://127.0.0.1:{port}/")).raise_for_status()

    async def main() -> float:
        async with httpx.AsyncClient() as client:
            begin = time.perf_counter()
            await asyncio.gather(*(some(client) for _ in range(16)))
            return time.perf_counter() - begin

    return asyncio.run(main())


def measured(serve: str, ask: str, requests: int, folder: str | None) -> float:
    """Microseconds of a request, recorded into a folder or not."""
    from tests.runtime import jobs

    env = jobs.environment(Path(folder) if folder else None)
    server = subprocess.Popen([sys.executable, __file__, serve], stdout=subprocess.PIPE, text=True, env=env)
    assert server.stdout is not None
    try:
        command = [sys.executable, __file__, ask, server.stdout.readline().strip(), str(requests)]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True).stdout
    finally:
        server.terminate()
        server.wait()
    return float(told) / requests * 1e6


def main(requests: int = 5000) -> None:
    """Measure clients and servers."""
    print("us of a request                recorded    plain")
    for serve, ask in (("serve_threads", "ask_http_client"), ("serve_uvicorn", "ask_httpx")):
        rounds = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                rounds.append([measured(serve, ask, requests, where) for where in (folder, None)])
        recorded, plain = (min(column) for column in zip(*rounds, strict=True))
        print(f"  {serve[6:]:10} {ask[4:]:15} {recorded:10.0f} {plain:8.0f}   {recorded - plain:+.0f}")


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name.startswith("serve"):
        globals()[name]()
    elif name.startswith("ask"):
        print(globals()[name](*map(int, sys.argv[2:])))
    else:
        main(*map(int, sys.argv[1:]))
