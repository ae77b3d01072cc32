"""What recording requests by HTTP costs: us of CPU time of a small one, best of several rounds in turns.

Run: python tests/benchmarks/http_cost.py [REQUESTS]

A client and its server are processes of their own, recorded and not; 5,000 requests by default. Their CPU time is that
of both, the sampler's included: on a busy machine it varies less than what passes.
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
WIDTH = 20


def answer() -> bytes:
    """The CPU time of this process."""
    return f"{time.process_time():{WIDTH}.6f}".encode()


def since(first: bytes, begin_s: float, last: bytes) -> float:
    """CPU seconds of this process since some, and of a server between two of its answers."""
    return time.process_time() - begin_s + float(last) - float(first)


def serve_threads() -> None:
    """Answer by http.server."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        """Answers at once."""

        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(WIDTH))
            self.end_headers()
            self.wfile.write(answer())

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def serve_uvicorn() -> None:
    """Answer by uvicorn."""
    import socket

    import uvicorn

    headers = [(b"content-length", str(WIDTH).encode())]

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer()})

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(application, log_level="error", lifespan="off", http="h11", loop="asyncio")
    uvicorn.Server(config).run([listening])


def ask_http_client(port: int, requests: int) -> float:
    """Ask by http.client."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask() -> bytes:
        connection.request("GET", "/")
        return connection.getresponse().read()

    first, begin = ask(), time.process_time()
    for _ in range(requests - 1):
        ask()
    return since(first, begin, ask())


def ask_httpx(port: int, requests: int) -> float:
    """Ask by httpx, 16 at a time."""
    import httpx

    async def some(client: Any) -> None:
        for _ in range(requests // 16):
            (await client.get(f"http://127.0.0.1:{port}/")).raise_for_status()

    async def main() -> float:
        async with httpx.AsyncClient() as client:
            first = (await client.get(f"http://127.0.0.1:{port}/")).content
            begin = time.process_time()
            await asyncio.gather(*(some(client) for _ in range(16)))
            return since(first, begin, (await client.get(f"http://127.0.0.1:{port}/")).content)

    return asyncio.run(main())


def measured(serve: str, ask: str, requests: int, folder: str | None) -> float:
    """Microseconds of CPU time of a request, recorded into a folder or not."""
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
    print("us of CPU time of a request    recorded    plain")
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
