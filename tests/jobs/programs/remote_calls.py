"""Processes that hand calls and messages to each other: a case by its name. It prints how long the slow line sleeps."""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing.queues import Queue
from typing import Any

LONG_S = 1.2
TASKS = 9
ROUNDS = 4
PACED_S = 0.03


def task(number: int) -> float:
    if number == 4:
        time.sleep(LONG_S)  # slow task
        return LONG_S
    time.sleep(0.02)
    return 0.0


def executor_slow_task() -> float:
    """One of the calls takes long, and its pool has nothing else to do meanwhile."""
    with ProcessPoolExecutor(3) as pool:
        return sum(future.result() for future in as_completed([pool.submit(task, n) for n in range(TASKS)]))


def event_loop() -> float:
    """The same from a loop that waits for all of them."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(3) as pool:
            return sum(await asyncio.gather(*(loop.run_in_executor(pool, task, n) for n in range(TASKS))))

    return asyncio.run(main())


def step(number: int) -> int:
    end = time.perf_counter() + 0.03
    while time.perf_counter() < end:
        number += 1
    return number


def prepare() -> float:
    time.sleep(LONG_S / ROUNDS)  # slow driver
    return LONG_S / ROUNDS


def executor_slow_driver() -> float:
    """Workers idle until they are called."""
    slept = 0.0
    with ProcessPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            slept += prepare()
            list(pool.map(step, range(2)))
    return slept


def executor_balanced() -> float:
    with ProcessPoolExecutor(2) as pool:
        for _ in range(12):
            list(pool.map(step, range(2)))
    return 0.0


_pace = [1.0]
"""By which factor this worker is slower than others."""


def know_pace(started: Any, slow: int) -> None:
    with started.get_lock():
        started.value += 1
        _pace[0] = 3.0 if started.value <= slow else 1.0


def paced(number: int) -> float:
    time.sleep(PACED_S * _pace[0])  # slow workers
    return PACED_S * (_pace[0] - 1.0)


def executor_slow_workers(slow: str) -> float:
    """Some of five workers take three times as long, and do fewer calls for that. It prints how long all took."""
    with ProcessPoolExecutor(5, initializer=know_pace, initargs=(mp.Value("i", 0), int(slow))) as pool:
        list(pool.map(paced, range(5)))
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            list(pool.map(paced, range(50)))
        return time.perf_counter() - begin


def piece(milliseconds: int) -> None:
    time.sleep(milliseconds / 1000)  # pieces


def executor_long_last(*how: str) -> float:
    """The last of many calls are long, or the first, or each is in two. It prints how long all took."""
    lengths = [30] * 40 + [500] * 3
    lengths = sorted(lengths, reverse=True) if "first" in how else lengths
    lengths = [each // 2 for each in lengths for _ in range(2)] if "halves" in how else lengths
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(piece, [30] * 8))
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            list(pool.map(piece, lengths))
        return time.perf_counter() - begin


def threads_long_last(*how: str) -> float:
    """The same with threads."""
    lengths = [30] * 40 + [500] * 3
    lengths = sorted(lengths, reverse=True) if "first" in how else lengths
    with ThreadPoolExecutor(4) as pool:
        begin = time.perf_counter()
        list(pool.map(piece, lengths))
        return time.perf_counter() - begin


def threads_balanced() -> float:
    with ThreadPoolExecutor(4) as pool:
        return float(len(list(pool.map(piece, [30] * 40))))


def pool_map(method: str) -> float:
    with mp.get_context(method).Pool(3) as pool:
        return sum(pool.map(task, range(TASKS), chunksize=1))


def pool_imap(method: str) -> float:
    """The items are made one by one."""
    with mp.get_context(method).Pool(3) as pool:
        return sum(pool.imap_unordered(task, (n for n in range(TASKS))))


def load(queue: Queue[Any]) -> None:
    for _ in range(ROUNDS):
        time.sleep(LONG_S / ROUNDS)  # slow loader
        queue.put(LONG_S / ROUNDS)
    queue.put(None)


def queue_loader(method: str) -> float:
    """A trainer that starves."""
    context, slept = mp.get_context(method), 0.0
    queue: Queue[Any] = context.Queue()
    loader = context.Process(target=load, args=(queue,), name="loader")
    loader.start()
    while (batch := queue.get()) is not None:
        slept += batch
        time.sleep(0.02)
    loader.join()
    return slept


def write(queue: Queue[Any]) -> None:
    while queue.get() is not None:
        time.sleep(LONG_S / ROUNDS)  # slow writer


def full_queue(method: str) -> float:
    """Who hands over to a slow one waits until there is room."""
    context = mp.get_context(method)
    queue: Queue[Any] = context.Queue(maxsize=1)
    writer = context.Process(target=write, args=(queue,), name="writer")
    writer.start()
    for number in (*range(ROUNDS), None):
        queue.put(number)
    writer.join()
    return LONG_S


def serve(pipe: Any, slow: bool) -> None:
    slept = 0.0
    while pipe.recv() is not None:
        if slow:
            time.sleep(LONG_S / ROUNDS)  # slow environment
            slept += LONG_S / ROUNDS
        pipe.send(0)
    pipe.send(slept)


def pipes(method: str, environments: str = "3", slow: str = "1") -> float:
    """Environments that take steps together, each behind a pipe; of three one is slow."""
    context = mp.get_context(method)
    ours, theirs = zip(*(context.Pipe() for _ in range(int(environments))), strict=True)
    processes = [
        context.Process(target=serve, args=(end, 0 < n <= int(slow)), name="env") for n, end in enumerate(theirs)
    ]
    for process in processes:
        process.start()
    for _ in range(ROUNDS):
        for end in ours:
            end.send(1)
        for end in ours:
            end.recv()
    for end in ours:
        end.send(None)
    slept = sum(end.recv() for end in ours)
    for process in processes:
        process.join()
    return float(slept)


if __name__ == "__main__":
    print(globals()[sys.argv[1]](*sys.argv[2:]))
