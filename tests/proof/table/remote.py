"""Calls between processes: pools, queues, ZeroMQ, HTTP, Ray."""

from __future__ import annotations

from ..readers import number
from ..rows import Command
from .topic import Topic, claimed, measured

DOCUMENT = "docs/appendix/remote-calls.md"
RAY = "docs/appendix/ray.md"

CALLS = Command(("python tests/benchmarks/remote_call_cost.py",), quiet=True)
HTTP = Command(("python tests/benchmarks/http_cost.py 3000",), quiet=True)
LOOP = Command(("python tests/benchmarks/asyncio_cost.py 500",), quiet=True)
MESSAGE = r"\s+[\d.]+\s+[\d.]+\s+([-+][\d.]+)"

TOPIC = Topic(
    "Calls between processes",
    (
        *measured(
            DOCUMENT,
            CALLS,
            ("remote-call", "a call or message that is handed over", "<= 0.4", "us", number(r"submit, put\s+([\d.]+)")),
            ("remote-wait", "a wait", "<= 0.8", "us", number(r"wait and got, idle and take\s+([\d.]+)")),
            (
                "remote-queue",
                "a message of a queue, put and got, adds",
                "<= 11",
                "us",
                number(r"message of a queue, put and got" + MESSAGE),
            ),
            (
                "remote-pipe",
                "a message of a pipe adds",
                "<= 8.5",
                "us",
                number(r"message of a pipe, sent and received" + MESSAGE),
            ),
            (
                "remote-zmq",
                "a message of ZeroMQ of 100 bytes adds",
                "<= 13",
                "us",
                number(r"100 bytes by ZeroMQ, sent and received" + MESSAGE),
            ),
        ),
        *measured(
            DOCUMENT,
            HTTP,
            (
                "http-threads",
                "a request, http.client and http.server, both sides, adds",
                "<= 120",
                "us",
                number(r"threads\s+http_client.*\s([-+]\d+)$"),
            ),
            (
                "http-uvicorn",
                "a request, httpx and uvicorn, adds",
                "<= 300",
                "us",
                number(r"uvicorn\s+httpx.*\s([-+]\d+)$"),
            ),
        ),
        *measured(
            "docs/appendix/overhead.md",
            LOOP,
            (
                "loop-rest",
                "a rest of a coroutine, recorded (48 to 55 us without)",
                "<= 106",
                "us",
                number(r"^rest: .* recorded ([\d.]+) us"),
            ),
            (
                "loop-turn",
                "a turn of an event loop, recorded (3.6 to 3.7 us without)",
                "<= 3.7",
                "us",
                number(r"^turn: .* recorded ([\d.]+) us"),
            ),
        ),
        *claimed(
            RAY,
            "held by `make raylibs-test`, which no part of a benchmark repeats",
            (
                "ray-train",
                "a slow line and a slow checkpoint of Ray Train: error of what the other worker waits",
                "<= 15",
                "%",
            ),
            ("ray-shares", "a loop of Ray actors: shares add up to 1 within", "<= 1", "%"),
        ),
        *claimed(
            DOCUMENT,
            "held by `tests/jobs/test_http.py`",
            ("http-seconds", "a slow line of a server: error of its seconds", "<= 15", "%"),
        ),
    ),
)
