"""Clients of HTTP and their server, as processes of their own: a case by its name.

It prints how long the clients waited in all, and how long the slow line slept, as each has measured it itself. Servers
print their port, and a line for each answer when they are done with it: then they may be ended.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CLIENTS, REQUESTS = 3, 8
SLOW_S, USUAL_S = 0.25, 0.02


def compute(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def is_slow(number: int) -> bool:
    return number % 4 == 3


class Handler(BaseHTTPRequestHandler):
    """Answers with how long the slow line slept."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer: Nagle's algorithm holds the second until the first is acknowledged

    def do_POST(self) -> None:
        number = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["number"]
        body = json.dumps({"slept_s": self.generate(number)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one_request(self) -> None:
        super().handle_one_request()
        if self.raw_requestline:
            print("answered", flush=True)

    def generate(self, number: int) -> float:
        begin = time.perf_counter()
        if is_slow(number):
            time.sleep(SLOW_S)  # slow handler
            return time.perf_counter() - begin
        return 0.0

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


def serve_threads() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def serve_uvicorn(awaits: bool = False) -> None:
    import socket

    import uvicorn

    async def application(scope: Any, receive: Any, send: Any) -> None:
        number = json.loads((await receive())["body"])["number"]
        begin = time.perf_counter()
        if is_slow(number) and awaits:
            await asyncio.sleep(SLOW_S)  # slow await
        elif is_slow(number):
            time.sleep(SLOW_S)  # slow coroutine
        slept_s = time.perf_counter() - begin if is_slow(number) else 0.0
        body = json.dumps({"slept_s": slept_s}).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        print("answered", flush=True)

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(application, log_level="error", lifespan="off", http="h11", loop="asyncio")
    uvicorn.Server(config).run([listening])


def serve_awaiting() -> None:
    serve_uvicorn(awaits=True)


def report(waited_s: float, slept_s: float) -> None:
    print(json.dumps({"waited_s": waited_s, "slept_s": slept_s}))


def ask(port: int) -> None:
    """A client that blocks."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    waited_s = slept_s = 0.0
    for number in range(REQUESTS):
        compute(USUAL_S)
        begin = time.perf_counter()
        connection.request("POST", "/generate", json.dumps({"number": number}))
        answer = json.loads(connection.getresponse().read())
        waited_s += time.perf_counter() - begin
        slept_s += answer["slept_s"]
    report(waited_s, slept_s)


def ask_httpx(port: int) -> None:
    """A client that waits for several answers at a time."""
    import httpx

    async def main() -> None:
        slept_s = waited_s = 0.0
        async with httpx.AsyncClient(timeout=60) as client:
            for first in range(0, REQUESTS, 4):
                compute(USUAL_S)
                begin = time.perf_counter()
                answers = await asyncio.gather(
                    *(
                        client.post(f"http://127.0.0.1:{port}/generate", json={"number": number})
                        for number in range(first, first + 4)
                    )
                )
                waited_s += time.perf_counter() - begin
                slept_s += sum(answer.json()["slept_s"] for answer in answers)
        report(waited_s, slept_s)

    asyncio.run(main())


def ask_in_turn(port: int) -> None:
    """A client whose answers another process waits for."""
    import multiprocessing as mp

    answers: Any = mp.Queue()
    asker = mp.Process(target=ask_for, args=(port, answers), name="asker")
    asker.start()
    slept_s = 0.0
    for _ in range(REQUESTS):
        slept_s += answers.get()
        compute(USUAL_S)
    asker.join()
    report(0.0, slept_s)


def ask_for(port: int, answers: Any) -> None:
    for _ in range(REQUESTS):
        answers.put(ask_once(port))


def ask_once(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", b'{"number": 3}') as response:  # asks
        return float(json.loads(response.read())["slept_s"])


def train(port: int, rank: int) -> None:
    """A rank of two, of which the first asks and hands the answers on."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=2)
    slept_s = 0.0
    for _ in range(REQUESTS):
        answers = [ask_once(port) if rank == 0 else None]
        dist.broadcast_object_list(answers, src=0)  # hands on
        slept_s += answers[0] or 0.0
        compute(USUAL_S)
    dist.destroy_process_group()
    report(0.0, slept_s if rank == 0 else 0.0)


CASES = {
    "ranks": ("serve_threads", "train", 2),
    "threads": ("serve_threads", "ask", CLIENTS),
    "uvicorn": ("serve_uvicorn", "ask_httpx", CLIENTS),
    "awaits": ("serve_awaiting", "ask_httpx", 1),
    "unrecorded": ("serve_threads", "ask_in_turn", 1),
}


def main(case: str) -> None:
    serve, client, count = CASES[case]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SCALANA")}
    server = subprocess.Popen(
        [sys.executable, __file__, serve],
        stdout=subprocess.PIPE,
        text=True,
        env=environment if case == "unrecorded" else None,
    )
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    ranks = [[str(rank)] if case == "ranks" else [] for rank in range(count)]
    clients = [
        subprocess.Popen([sys.executable, __file__, client, port, *rank], stdout=subprocess.PIPE, text=True)
        for rank in ranks
    ]
    told = [json.loads(process.communicate()[0]) for process in clients]
    asking = 1 if case == "ranks" else count
    # Of a process that is ended while it answers the last milliseconds are not known; what it has done is written soon.
    for _ in range(asking * REQUESTS):
        assert server.stdout.readline()
    time.sleep(0.1)
    server.terminate()
    server.wait()
    report(sum(one["waited_s"] for one in told), sum(one["slept_s"] for one in told))


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    globals().get(name, lambda: main(name))(*map(int, arguments))
