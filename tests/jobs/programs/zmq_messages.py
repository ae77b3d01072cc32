"""Processes that hand messages to each other by ZeroMQ: a case by its name. It prints how long the slow line sleeps."""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio

LONG_S = 0.3
ROUNDS = 4
ADDRESSES: dict[str, str] = {}


def socket(kind: int, name: str, bind: bool = False) -> Any:
    made = zmq.Context.instance().socket(kind)
    (made.bind if bind else made.connect)(f"ipc://{ADDRESSES['folder']}/{name}")
    made.linger = 5000
    return made


def begin(*functions: Callable[..., None]) -> list[Any]:
    """Processes that are called after their functions."""
    context = mp.get_context("spawn")
    started = [
        context.Process(target=run, args=(function.__name__, ADDRESSES["folder"]), name=function.__name__)
        for function in functions
    ]
    for process in started:
        process.start()
    return started


def run(function: str, folder: str) -> None:
    ADDRESSES["folder"] = folder
    globals()[function]()
    zmq.Context.instance().term()


def arrive() -> None:
    """Wait until all processes are there."""
    ask = socket(zmq.REQ, "there")
    ask.send(b"here")
    ask.recv()


def meet(processes: int) -> None:
    there = socket(zmq.ROUTER, "there", bind=True)
    names = [there.recv_multipart()[0] for _ in range(processes)]
    for name in names:
        there.send_multipart([name, b"", b"so are all"])


def produce() -> None:
    arrive()
    out = socket(zmq.PUSH, "raw")
    for number in range(ROUNDS):
        time.sleep(LONG_S)  # slow producer
        out.send_pyobj({"number": number, "data": b"\0" * 100_000})
    out.send_pyobj(None)


def transform() -> None:
    source, out = socket(zmq.PULL, "raw", bind=True), socket(zmq.PUSH, "ready")
    arrive()
    while (item := source.recv_pyobj()) is not None:
        out.send_multipart([b"item", item["data"]], copy=False)
    out.send_multipart([b"end", b""])


def pipeline() -> float:
    """A producer, a process between, and the main process, which polls."""
    source = socket(zmq.PULL, "ready", bind=True)
    poller = zmq.Poller()
    poller.register(source, zmq.POLLIN)
    processes = begin(produce, transform)
    meet(2)
    while True:
        if poller.poll(50) and source.recv_multipart(copy=False)[0].bytes == b"end":
            break
    for process in processes:
        process.join()
    return ROUNDS * LONG_S


def work(pause: Callable[[], None]) -> None:
    """Ask for a task, do it, tell the result, until there is none: many messages have the same contents."""
    arrive()
    to_master = socket(zmq.DEALER, "tasks")
    to_master.send_multipart([b"", b"ready"])
    while to_master.recv_multipart()[-1] != b"stop":
        pause()
        to_master.send_multipart([b"", b"ready"])


def fast() -> None:
    work(lambda: time.sleep(0.01))


def slow() -> None:
    work(lambda: time.sleep(LONG_S))  # slow worker


def router() -> float:
    """Both workers get a task, then the next round begins when both are ready: one is slow."""
    tasks = socket(zmq.ROUTER, "tasks", bind=True)
    processes = begin(fast, slow)
    meet(2)
    for turn in range(ROUNDS + 1):
        names = [tasks.recv_multipart()[0] for _ in processes]
        for name in names:
            tasks.send_multipart([name, b"", b"task" if turn < ROUNDS else b"stop"])
    for process in processes:
        process.join()
    return ROUNDS * LONG_S


def subscribe() -> None:
    news = socket(zmq.SUB, "news")
    news.subscribe(b"weights")
    arrive()
    while news.recv_multipart()[1] != b"end":
        time.sleep(0.01)


subscribe_too = subscribe


def publish() -> float:
    """Two processes wait for what is published."""
    news = socket(zmq.PUB, "news", bind=True)
    processes = begin(subscribe, subscribe_too)
    meet(2)
    for number in range(ROUNDS):
        time.sleep(LONG_S)  # slow publisher
        news.send_multipart([b"weights", b"%d" % number])
    news.send_multipart([b"weights", b"end"])
    for process in processes:
        process.join()
    return ROUNDS * LONG_S


def answer() -> None:
    """A proxy before threads, one of which answers late; names of peers come through."""
    arrive()
    front, back = socket(zmq.ROUTER, "questions", bind=True), zmq.Context.instance().socket(zmq.DEALER)
    back.bind("inproc://answers")
    thread = threading.Thread(target=answer_one_by_one)
    threading.Thread(target=forward, args=(front, back), daemon=True).start()
    thread.start()
    thread.join()
    sys.stdout.flush()
    os._exit(0)  # the proxy has no end


def forward(front: Any, back: Any) -> None:
    zmq.proxy(front, back)


def answer_one_by_one() -> None:
    questions = zmq.Context.instance().socket(zmq.DEALER)
    questions.connect("inproc://answers")
    while True:
        name, question, data = questions.recv_multipart()
        if question == b"end":
            break
        time.sleep(LONG_S)  # slow answer
        questions.send_multipart([name, question, data])


def proxy() -> float:
    ask = socket(zmq.DEALER, "questions")
    processes = begin(answer)
    meet(1)
    for number in range(ROUNDS):
        ask.send_multipart([b"%d" % number, b"all the same"])
        ask.recv_multipart()
    ask.send_multipart([b"end", b""])
    for process in processes:
        process.join()
    return ROUNDS * LONG_S


def generate() -> None:
    """An engine that asks for requests without waiting, and sleeps a little where there are none."""
    arrive()
    requests, answers = socket(zmq.PULL, "requests"), socket(zmq.PUSH, "answers")
    while True:
        try:
            number = requests.recv_json(zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.002)
            continue
        if number < 0:
            break
        time.sleep(LONG_S)  # slow engine
        answers.send_json({"answer": number})


def event_loop() -> float:
    """A front end of coroutines, which waits for an engine."""

    async def main() -> None:
        context = zmq.asyncio.Context()
        requests, answers = context.socket(zmq.PUSH), context.socket(zmq.PULL)
        requests.bind(f"ipc://{ADDRESSES['folder']}/requests")
        answers.bind(f"ipc://{ADDRESSES['folder']}/answers")
        processes = begin(generate)
        meet(1)
        for number in range(ROUNDS):
            await requests.send_json(number)
            if number % 2:
                await answers.poll()
            assert await answers.recv_json() == {"answer": number}  # awaits
        await requests.send_json(-1)
        for process in processes:
            process.join()
        context.destroy(linger=1000)

    asyncio.run(main())
    return ROUNDS * LONG_S


def feeder() -> float:
    """The engine asks over and over for what the main process is late with."""
    requests, answers = socket(zmq.PUSH, "requests", bind=True), socket(zmq.PULL, "answers", bind=True)
    processes = begin(spin)
    meet(1)
    for number in range(ROUNDS):
        time.sleep(LONG_S)  # slow feeder
        requests.send_json(number)
    requests.send_json(-1)
    while answers.recv_json() >= 0:
        pass
    for process in processes:
        process.join()
    return ROUNDS * LONG_S


def spin() -> None:
    """Asks over and over, and sleeps a little in between."""
    arrive()
    requests, answers = socket(zmq.PULL, "requests"), socket(zmq.PUSH, "answers")
    number = 0
    while number >= 0:
        while True:
            try:
                number = requests.recv_json(zmq.NOBLOCK)
                break
            except zmq.Again:
                time.sleep(0.001)
        answers.send_json(number)


def engine() -> None:
    """Threads receive and send, and the main thread computes; they hand things to each other by queues."""
    received: queue.Queue[Any] = queue.Queue()
    made: queue.Queue[Any] = queue.Queue()

    def receive() -> None:
        requests = socket(zmq.PULL, "requests")
        while (number := requests.recv_pyobj()) >= 0:
            received.put(number)
        received.put(-1)

    def send() -> None:
        answers = socket(zmq.PUSH, "answers")
        while (number := made.get()) >= 0:
            answers.send_pyobj(number)

    arrive()
    threads = [threading.Thread(target=function) for function in (receive, send)]
    for thread in threads:
        thread.start()
    while (number := received.get()) >= 0:
        time.sleep(LONG_S)  # slow step
        made.put(number)
    made.put(-1)
    for thread in threads:
        thread.join()


def threads() -> float:
    """An engine whose main thread does not send and receive itself."""
    requests, answers = socket(zmq.PUSH, "requests", bind=True), socket(zmq.PULL, "answers", bind=True)
    processes = begin(engine)
    meet(1)
    for number in range(ROUNDS):
        requests.send_pyobj(number)
        assert answers.recv_pyobj() == number
    requests.send_pyobj(-1)
    for process in processes:
        process.join()
    return ROUNDS * LONG_S


def command() -> float:
    """Programs of their own: one that sends late, one that passes on, and one that receives."""
    waiting = subprocess.Popen([sys.executable, __file__, "in", ADDRESSES["folder"], "transform"])
    subprocess.Popen([sys.executable, __file__, "in", ADDRESSES["folder"], "produce"])
    source = socket(zmq.PULL, "ready", bind=True)
    meet(2)
    while source.recv_multipart()[0] != b"end":
        pass
    waiting.wait()
    return ROUNDS * LONG_S


if __name__ == "__main__":
    if sys.argv[1] == "in":
        run(sys.argv[3], sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as made:
            ADDRESSES["folder"] = str(Path(made))
            print(globals()[sys.argv[1]]())
